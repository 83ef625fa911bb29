// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package recording

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Writer writes a recording. It is not safe for concurrent use.
type Writer struct {
	out     io.Writer
	started bool
	last    int64 // time of the last frame, -1 before the first
	blocks  int
	failed  error // of a write; nothing more is written

	// The present block.
	raw      []byte
	first    int64
	frames   int
	changes  int // and events
	applied  int // bytes of its answers
	requests map[string]int
	before   map[string][]byte // answers of its last frame
}

// NewWriter returns a writer. It writes nothing before the first frame.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out, last: -1} }

// Add adds a frame. It must be later than the previous one by at least a millisecond. The
// writer keeps its texts, which must not change afterwards.
func (w *Writer) Add(f *Frame) error {
	at := f.At.UnixMilli()
	if err := w.check(f, at); err != nil {
		return err
	}
	if w.frames >= usualFrames || len(w.raw) >= usualRaw || w.applied >= usualApplied || w.changes >= usualChanges || len(w.requests) >= usualRequests {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if w.frames == 0 {
		w.first, w.last, w.requests, w.before = at, at, map[string]int{}, map[string][]byte{}
	}
	w.raw = binary.AppendUvarint(w.raw, uint64(at-w.last))
	w.addChanges(f)
	w.raw = binary.AppendUvarint(w.raw, uint64(len(f.Events)))
	for _, e := range f.Events {
		w.raw = appendText(w.raw, e)
	}
	w.changes += len(f.Events)
	w.last = at
	w.frames++
	return nil
}

// Fit removes the answers for which a recording has no room: those that are too large and, if
// the others together are still too large, the largest of these. It returns the sizes of the
// removed answers by request.
func (f *Frame) Fit() (removed map[string]int) {
	removed = map[string]int{}
	drop := func(request string) {
		removed[request] = len(f.Answers[request])
		delete(f.Answers, request)
	}
	total := 0
	for _, e := range f.Events {
		total += len(e)
	}
	for request, text := range f.Answers {
		if len(request) > mostRequest || len(text) > mostAnswer {
			drop(request)
		} else {
			total += len(request) + len(text)
		}
	}
	largest := func(a, b string) int {
		return cmp.Or(len(f.Answers[b])-len(f.Answers[a]), strings.Compare(a, b))
	}
	for _, request := range slices.SortedFunc(maps.Keys(f.Answers), largest) {
		if total <= f.room() {
			break
		}
		total -= len(request) + len(f.Answers[request])
		drop(request)
	}
	return removed
}

// room returns how many bytes the answers and events of a frame may have.
func (f *Frame) room() int { return mostRaw - usualRaw - 32*(len(f.Answers)+len(f.Events)+1) }

// check returns an error if a frame cannot be added.
func (w *Writer) check(f *Frame, at int64) error {
	if at < 0 || at <= w.last {
		return fmt.Errorf("the frame of %s is not later than the one before", f.At)
	}
	if most := mostRequests - usualRequests; len(f.Answers) > most || len(f.Events) > most {
		return fmt.Errorf("a frame with %d answers and %d events; it may have %d of each", len(f.Answers), len(f.Events), most)
	}
	total := 0
	for request, text := range f.Answers {
		if len(request) > mostRequest || len(text) > mostAnswer {
			return fmt.Errorf("the answer to %.80s has %d bytes; it may have %d", request, len(text), mostAnswer)
		}
		total += len(request) + len(text)
	}
	for _, e := range f.Events {
		if total += len(e); len(e) > mostAnswer {
			return fmt.Errorf("an event has %d bytes; it may have %d", len(e), mostAnswer)
		}
	}
	if most := f.room(); total > most {
		return fmt.Errorf("the answers of a frame have %d bytes; they may have %d", total, most)
	}
	return nil
}

// addChanges adds the answers that differ from the previous frame, in the order of their
// requests, so that the same frames give the same bytes.
func (w *Writer) addChanges(f *Frame) {
	var changes []byte
	n := 0
	change := func(request string, kind int) {
		i, known := w.requests[request]
		if known {
			changes = binary.AppendUvarint(changes, uint64(i+1))
		} else {
			w.requests[request] = len(w.requests)
			changes = appendText(append(changes, 0), []byte(request))
		}
		changes = append(changes, byte(kind))
		n++
	}
	for _, request := range slices.Sorted(maps.Keys(f.Answers)) {
		text := f.Answers[request]
		old, there := w.before[request]
		if there && bytes.Equal(old, text) {
			continue
		}
		kind, content := whole, text
		if there {
			if delta := appendDelta(nil, old, text); len(delta) < len(text) {
				kind, content = changed, delta
			}
		}
		change(request, kind)
		changes = appendText(changes, content)
		w.applied += len(text)
		w.before[request] = text
	}
	for _, request := range slices.Sorted(maps.Keys(w.before)) {
		if _, there := f.Answers[request]; !there {
			change(request, gone)
			delete(w.before, request)
		}
	}
	w.changes += n
	w.raw = append(binary.AppendUvarint(w.raw, uint64(n)), changes...)
}

func appendText(out, text []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

var errFull = errors.New("the recording has as many blocks as it may have")

// Flush writes the frames so far. The next one begins a new block.
func (w *Writer) Flush() error {
	if w.failed != nil || w.frames == 0 {
		return w.failed
	}
	if w.blocks == mostBlocks {
		return errFull
	}
	var data bytes.Buffer
	z, err := zlib.NewWriterLevel(&data, zlib.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(w.raw); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	var out []byte
	if !w.started {
		out = []byte(magic)
	}
	for _, n := range []int{data.Len(), len(w.raw), w.frames} {
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	for _, t := range []int64{w.first, w.last} {
		out = binary.BigEndian.AppendUint64(out, uint64(t))
	}
	if _, err := w.out.Write(append(out, data.Bytes()...)); err != nil {
		w.failed = fmt.Errorf("writing the recording: %w", err) // a part of a block may be written
		return w.failed
	}
	w.started = true
	w.blocks++
	w.raw, w.frames, w.changes, w.applied, w.requests, w.before = w.raw[:0], 0, 0, 0, nil, nil
	return nil
}
