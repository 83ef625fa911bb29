// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package recording

import (
	"errors"
	"fmt"
)

// block is a decoded block. Its answers are those of one of its frames.
type block struct {
	place
	frames   []frame
	numbers  map[string]int // of requests
	requests int

	next    int      // frame whose changes have not been applied
	answers [][]byte // by the number of the request, nil for none
	applied int      // bytes of all answers so far
}

type frame struct {
	at      int64
	changes []change
	events  [][]byte
}

type change struct {
	request, kind int
	text          []byte
}

// wrong returns an error with the offset of the block.
func (b *block) wrong(err error) error {
	return fmt.Errorf("byte %d: the block there: %w", b.offset, err)
}

// parse reads the frames, without applying them.
func (b *block) parse(raw []byte) error {
	in := reader{raw}
	b.numbers = map[string]int{}
	at, changes := b.first, 0
	for i := range b.place.frames {
		since, err := in.length(int(b.last - at))
		if err != nil {
			return err
		}
		if i > 0 && since == 0 || i == 0 && since != 0 {
			return errors.New("the times of frames do not increase")
		}
		at += int64(since)
		f := frame{at: at}
		n, err := in.length(mostChanges - changes)
		if err != nil {
			return err
		}
		changes += n
		for range n {
			c, err := b.change(&in)
			if err != nil {
				return err
			}
			f.changes = append(f.changes, c)
		}
		if n, err = in.length(mostChanges - changes); err != nil {
			return err
		}
		changes += n
		for range n {
			e, err := in.text(mostAnswer)
			if err != nil {
				return err
			}
			f.events = append(f.events, e)
		}
		b.frames = append(b.frames, f)
	}
	if at != b.last || len(in.rest) > 0 {
		return errors.New("its frames do not end as its header says")
	}
	b.answers = make([][]byte, b.requests)
	return nil
}

// change reads a change.
func (b *block) change(in *reader) (c change, err error) {
	n, err := in.length(b.requests)
	if err != nil {
		return c, err
	}
	if c.request = n - 1; n == 0 {
		name, err := in.text(mostRequest)
		if err != nil {
			return c, err
		}
		if b.requests == mostRequests {
			return c, errLimit
		}
		if _, twice := b.numbers[string(name)]; twice {
			return c, fmt.Errorf("the request %.80q is introduced twice", name)
		}
		c.request = b.requests
		b.numbers[string(name)] = c.request
		b.requests++
	}
	if c.kind, err = in.length(changed); err != nil || c.kind == gone {
		return c, err
	}
	c.text, err = in.text(mostAnswer)
	return c, err
}

// seek applies the changes up to the last frame that is not later than at.
func (b *block) seek(at int64) error {
	if b.next > 0 && b.frames[b.next-1].at > at {
		b.next, b.applied = 0, 0
		clear(b.answers)
	}
	for b.next < len(b.frames) && b.frames[b.next].at <= at {
		for i := range b.frames[b.next].changes {
			if err := b.apply(&b.frames[b.next].changes[i]); err != nil {
				b.next, b.applied = 0, 0 // or the next call would find a mixture
				clear(b.answers)
				return err
			}
		}
		b.next++
	}
	return nil
}

func (b *block) apply(c *change) error {
	text := c.text
	if text == nil && c.kind != gone {
		text = []byte{}
	}
	if c.kind == changed {
		if b.answers[c.request] == nil {
			return errDelta
		}
		var err error
		if text, err = applyDelta(b.answers[c.request], c.text, max(0, min(mostAnswer, mostApplied-b.applied))); err != nil {
			return err
		}
	}
	b.applied += len(text)
	b.answers[c.request] = text
	return nil
}
