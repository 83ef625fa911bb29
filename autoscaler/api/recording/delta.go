// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
)

// A delta describes a text as new bytes and parts of an old text:
//
//	delta = length of the text, step ...
//	step  = length of new bytes, new bytes, shift, length of the copy
//
// A copy begins in the old text where the previous copy ended, plus the number of new bytes,
// plus the shift, which is signed. So a number that is replaced by one of the same length has
// shift 0. The last step may end after its new bytes.

const (
	nearby = 48 // how far from a change its end is sought, in bytes
	anchor = 8  // bytes that are equal where a change ends
	sought = 24 // bytes that are equal where the text continues elsewhere
)

// appendDelta appends the delta from old to text. It finds a short delta, not the shortest.
func appendDelta(out, old, text []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(text)))
	d := differ{old: old}
	for i, at := 0, 0; i < len(text); {
		fresh, from := d.next(text[i:], at)
		out = binary.AppendUvarint(out, uint64(fresh))
		out = append(out, text[i:i+fresh]...)
		if i += fresh; i == len(text) {
			break
		}
		n := common(old[from:], text[i:])
		out = binary.AppendVarint(out, int64(from-at-fresh))
		out = binary.AppendUvarint(out, uint64(n))
		i, at = i+n, from+n
	}
	return out
}

// differ finds parts of a text in an old one.
type differ struct {
	old   []byte
	index []int32 // the last place of each hash, plus 1; made when it is first needed
	shift int
}

// next returns the number of new bytes at the beginning of text, and from where in the old
// text the rest continues. The previous copy ended at the place at. If the rest is new, it
// returns the length of text.
func (d *differ) next(text []byte, at int) (fresh, from int) {
	// First look next to the change: names of fields repeat everywhere.
	for skipped := range 2 * nearby {
		for fresh := max(0, skipped-nearby); fresh <= min(skipped, nearby, len(text)-1); fresh++ {
			if from := at + skipped - fresh; from < len(d.old) && d.old[from] == text[fresh] {
				if n := common(d.old[from:], text[fresh:]); n >= anchor || n == len(text)-fresh {
					return fresh, from
				}
			}
		}
	}
	for fresh := 0; fresh+sought <= len(text); fresh++ {
		if from := d.find(text[fresh:]); from >= 0 {
			return fresh, from
		}
	}
	return len(text), 0
}

// find returns a place in the old text where the first bytes of text are, or -1.
func (d *differ) find(text []byte) int {
	if d.index == nil {
		size := bits.Len(uint(len(d.old)))
		d.index, d.shift = make([]int32, 1<<size), 64-size
		for p := 0; p+sought <= len(d.old); p++ {
			d.index[hash(d.old[p:])>>d.shift] = int32(p + 1)
		}
	}
	from := int(d.index[hash(text)>>d.shift]) - 1
	if from < 0 || !bytes.Equal(d.old[from:from+sought], text[:sought]) {
		return -1
	}
	return from
}

// hash returns a hash of the first bytes of text.
func hash(text []byte) uint64 {
	const odd = 0x9E3779B97F4A7C15
	h := binary.LittleEndian.Uint64(text) * odd
	h = (h ^ h>>29 ^ binary.LittleEndian.Uint64(text[8:])) * odd
	return (h ^ h>>29 ^ binary.LittleEndian.Uint64(text[16:])) * odd
}

// common returns how many bytes a and b have in common at their beginnings.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

var errDelta = errors.New("a delta does not fit the previous answer")

// applyDelta returns the text that a delta describes. most bounds its length.
func applyDelta(old, delta []byte, most int) ([]byte, error) {
	in := reader{delta}
	size, err := in.length(most)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, min(size, len(old)+len(delta)))
	for at := 0; len(out) < size; {
		fresh, err := in.text(size - len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, fresh...)
		if len(out) == size {
			break
		}
		shift, k := binary.Varint(in.rest)
		if k <= 0 {
			return nil, errShort
		}
		in.rest = in.rest[k:]
		n, err := in.length(size - len(out))
		if err != nil {
			return nil, err
		}
		from := int64(at+len(fresh)) + shift // an overflow makes it negative
		if from < 0 || n == 0 || from > int64(len(old)-n) {
			return nil, errDelta
		}
		at = int(from) + n
		out = append(out, old[at-n:at]...)
	}
	if len(in.rest) > 0 {
		return nil, errDelta
	}
	return out, nil
}

var errShort = errors.New("it ends within a frame")

// reader reads numbers and texts.
type reader struct{ rest []byte }

// length reads a number that is at most most.
func (r *reader) length(most int) (int, error) {
	n, k := binary.Uvarint(r.rest)
	switch {
	case k <= 0:
		return 0, errShort
	case n > uint64(most):
		return 0, errLimit
	}
	r.rest = r.rest[k:]
	return int(n), nil
}

var errLimit = errors.New("a length or number exceeds its limit")

// text reads a text of at most most bytes, which stays part of the input.
func (r *reader) text(most int) ([]byte, error) {
	n, err := r.length(most)
	if err != nil {
		return nil, err
	}
	if n > len(r.rest) {
		return nil, errShort
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out, nil
}
