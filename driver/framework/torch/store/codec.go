// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

var errMalformed = errors.New("store: malformed")

// entry is an operation in the log.
type entry struct {
	host string // where it came from
	seq  uint64 // number of the operation at its host, from 1
	op   []byte // see appendOp
}

func (e *entry) size() int { return len(e.host) + len(e.op) + opExtra }

// batch is a part of the log.
type batch struct {
	first   uint64 // index of entries[0], from 1
	stable  uint64 // how many entries all hosts have applied
	entries []entry
}

// maxIndex is larger than the number of entries in any log, and small enough for sums not
// to overflow.
const maxIndex = 1 << 62

// last returns the index of the last entry, first-1 if there is none.
func (b *batch) last() uint64 { return b.first + uint64(len(b.entries)) - 1 }

func appendBytes[T string | []byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// appendOp appends an operation of a rank. A field that its kind does not use is empty and
// takes one byte.
func appendOp(b []byte, rank int, o *Op) []byte {
	b = append(b, byte(o.Kind))
	b = binary.AppendUvarint(b, uint64(rank)) //nolint:gosec // a rank is not negative
	b = appendBytes(b, o.Key)
	b = appendBytes(b, o.Value)
	b = appendBytes(b, o.Expected)
	b = binary.AppendVarint(b, o.Number)
	b = binary.AppendUvarint(b, uint64(len(o.Pairs)))
	for _, p := range o.Pairs {
		b = appendBytes(b, p.Key)
		b = appendBytes(b, p.Value)
	}
	return b
}

// decodeOp reads the output of appendOp. Values share its memory.
func decodeOp(b []byte) (rank int, o Op, err error) {
	d := decoder{rest: b}
	o.Kind = Kind(d.byte())
	rank = int(d.uvarint() & (1<<31 - 1))
	o.Key = string(d.bytes())
	o.Value = d.bytes()
	o.Expected = d.bytes()
	o.Number = d.varint()
	if n := d.count(2); n > 0 {
		o.Pairs = make([]Pair, n)
		for i := range o.Pairs {
			o.Pairs[i] = Pair{Key: string(d.bytes()), Value: d.bytes()}
		}
	}
	return rank, o, d.end("operation")
}

// appendBatch appends a part of the log. It allocates memory once, because a log may have
// megabytes.
func appendBatch(b []byte, p batch) []byte {
	size := 3 * binary.MaxVarintLen64
	for i := range p.entries {
		size += len(p.entries[i].host) + len(p.entries[i].op) + 3*binary.MaxVarintLen64
	}
	b = slices.Grow(b, size)
	b = binary.AppendUvarint(b, p.first)
	b = binary.AppendUvarint(b, p.stable)
	b = binary.AppendUvarint(b, uint64(len(p.entries)))
	for i := range p.entries {
		e := &p.entries[i]
		b = appendBytes(b, e.host)
		b = binary.AppendUvarint(b, e.seq)
		b = appendBytes(b, e.op)
	}
	return b
}

// decodeBatch reads the output of appendBatch. Operations share its memory.
func decodeBatch(b []byte) (batch, error) {
	d := decoder{rest: b}
	p := batch{first: d.uvarint(), stable: d.uvarint()}
	p.entries = make([]entry, d.count(3))
	for i := range p.entries {
		p.entries[i] = entry{host: string(d.bytes()), seq: d.uvarint(), op: d.bytes()}
	}
	if d.err == nil && (p.first == 0 || p.first > maxIndex) {
		d.err = errMalformed
	}
	return p, d.end("log")
}

// decoder reads a message of another agent. After an error it reads zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail() { d.rest, d.err = nil, errMalformed }

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// count reads the number of elements that follow, each of at least size bytes.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/size) { //nolint:gosec // not negative
		d.fail()
		return 0
	}
	return int(n) //nolint:gosec // at most len(d.rest)
}

func (d *decoder) end(what string) error {
	switch {
	case d.err != nil:
		return fmt.Errorf("%w: %s", d.err, what)
	case len(d.rest) > 0:
		return fmt.Errorf("%w: %d bytes follow the %s", errMalformed, len(d.rest), what)
	}
	return nil
}
