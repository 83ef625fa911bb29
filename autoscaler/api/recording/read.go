// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package recording

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"
)

// Recording reads a recording. It is not safe for concurrent use.
type Recording struct {
	in     io.ReaderAt
	blocks []place
	frames int
	torn   int64

	block *block // the decoded one, or nil
}

// place is where a block is, and what its header says.
type place struct {
	offset            int64 // of the header
	data, raw, frames int
	first, last       int64
}

// ErrFormat is returned for input that is no recording of this version.
var ErrFormat = errors.New("not a recording of this version (kolo recording 1)")

// Open reads the headers of a recording of size bytes. It returns an error that wraps
// ErrFormat, or names the offset of a wrong header. The end of a recording may be missing:
// see Torn.
func Open(in io.ReaderAt, size int64) (*Recording, error) {
	r := &Recording{in: in}
	begin := make([]byte, len(magic))
	if _, err := in.ReadAt(begin, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(begin) != magic {
		return nil, fmt.Errorf("it begins with %.40q: %w", bytes.TrimRight(begin, "\x00"), ErrFormat)
	}
	last := int64(-1)
	for at := int64(len(magic)); at < size; {
		if len(r.blocks) == mostBlocks {
			return nil, fmt.Errorf("byte %d: more than %d blocks", at, mostBlocks)
		}
		if at+headerSize > size {
			r.torn = size - at
			break
		}
		var h [headerSize]byte
		if _, err := in.ReadAt(h[:], at); err != nil {
			return nil, fmt.Errorf("byte %d: %w", at, err)
		}
		p := place{at, int(number(h[0:])), int(number(h[4:])), int(number(h[8:])), int64(binary.BigEndian.Uint64(h[12:])), int64(binary.BigEndian.Uint64(h[20:]))}
		if err := p.check(last); err != nil {
			return nil, fmt.Errorf("byte %d: %w", at, err)
		}
		if at += headerSize + int64(p.data); at > size {
			r.torn = size - p.offset
			break
		}
		last = p.last
		r.frames += p.frames
		r.blocks = append(r.blocks, p)
	}
	if len(r.blocks) == 0 {
		return nil, fmt.Errorf("byte %d: no whole block, so there is nothing to replay", len(magic))
	}
	return r, nil
}

func number(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// check returns an error if a header cannot be true. before is the last time of the block
// before.
func (p *place) check(before int64) error {
	switch {
	case p.data > mostData || p.raw > mostRaw || p.frames > mostFrames || p.frames == 0:
		return fmt.Errorf("the header of a block with %d frames in %d bytes: %w", p.frames, p.data, errLimit)
	case p.first <= before || p.last < p.first || p.last >= latest:
		return errors.New("the times of blocks do not increase")
	}
	return nil
}

// latest is the end of the year 9999, which is the last that JSON has.
const latest = 253_402_300_800_000

// From returns the time of the first frame.
func (r *Recording) From() time.Time { return time.UnixMilli(r.blocks[0].first) }

// To returns the time of the last frame.
func (r *Recording) To() time.Time { return time.UnixMilli(r.blocks[len(r.blocks)-1].last) }

// Frames returns the number of frames.
func (r *Recording) Frames() int { return r.frames }

// Torn returns how many bytes at the end are part of a block that is not whole, because its
// writer was killed. They are left out.
func (r *Recording) Torn() int64 { return r.torn }

// Answer returns the answer to a request in the last frame that is not later than at. Before
// the first frame, it is that of the first. Without such an answer, there is false. The
// answer must not be changed. Errors name the offset of the block.
func (r *Recording) Answer(at time.Time, request string) (text []byte, there bool, err error) {
	ms := max(at.UnixMilli(), r.blocks[0].first)
	b, err := r.load(sort.Search(len(r.blocks), func(i int) bool { return r.blocks[i].first > ms }) - 1)
	if err != nil {
		return nil, false, err
	}
	if err := b.seek(ms); err != nil {
		return nil, false, b.wrong(err)
	}
	i, known := b.numbers[request]
	if !known || b.answers[i] == nil {
		return nil, false, nil
	}
	return b.answers[i], true, nil
}

// Events returns the last events, up to most, of the frames later than after and not later
// than to. The newest event is last.
func (r *Recording) Events(after, to time.Time, most int) (out [][]byte, err error) {
	from, until := after.UnixMilli(), to.UnixMilli()
	for i := range r.blocks {
		if r.blocks[i].last <= from || r.blocks[i].first > until {
			continue
		}
		b, err := r.load(i)
		if err != nil {
			return nil, err
		}
		for k := range b.frames {
			if f := &b.frames[k]; f.at > from && f.at <= until {
				out = append(out, f.events...)
				out = out[max(0, len(out)-most):]
			}
		}
	}
	return out, nil
}

// load decodes a block, unless it is the one that was decoded last.
func (r *Recording) load(i int) (*block, error) {
	p := r.blocks[i]
	if r.block != nil && r.block.place == p {
		return r.block, nil
	}
	b := &block{place: p}
	raw, err := r.inflate(p)
	if err == nil {
		err = b.parse(raw)
	}
	if err != nil {
		return nil, b.wrong(err)
	}
	r.block = b
	return b, nil
}

// inflate reads the frames of a block.
func (r *Recording) inflate(p place) ([]byte, error) {
	z, err := zlib.NewReader(io.NewSectionReader(r.in, p.offset+headerSize, int64(p.data)))
	if err != nil {
		return nil, err
	}
	var raw bytes.Buffer
	n, err := io.Copy(&raw, io.LimitReader(z, int64(p.raw)+1)) // the end verifies the checksum
	switch {
	case err != nil:
		return nil, err
	case n != int64(p.raw):
		return nil, fmt.Errorf("its frames do not have %d bytes", p.raw)
	}
	return raw.Bytes(), z.Close()
}
