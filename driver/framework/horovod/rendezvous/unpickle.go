// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Plain Python data in Go: str is string, bytes is []byte, int is int64, and the
// types below. Lists and dicts are pointers because a pickle can still add to one
// that is already part of another value.
type (
	pyTuple []any
	pyList  struct{ items []any }
	pyDict  struct{ items []pyItem }
	pyItem  struct{ key, value any }
)

// pyMark is on the stack where Python's unpickler has a mark.
type pyMark struct{}

// Opcodes of pickle protocols 2 to 5 that build plain data. Opcodes that import,
// call or build objects (GLOBAL, STACK_GLOBAL, REDUCE, NEWOBJ, BUILD, INST, EXT,
// PERSID and the rest) are missing here, and therefore refused.
const (
	opProto           = 0x80
	opFrame           = 0x95
	opStop            = '.'
	opMark            = '('
	opEmptyDict       = '}'
	opEmptyList       = ']'
	opEmptyTuple      = ')'
	opTuple           = 't'
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opAppend          = 'a'
	opAppends         = 'e'
	opSetItem         = 's'
	opSetItems        = 'u'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opShortBinUnicode = 0x8c
	opBinUnicode      = 'X'
	opBinUnicode8     = 0x8d
	opShortBinBytes   = 'C'
	opBinBytes        = 'B'
	opBinBytes8       = 0x8e
	opMemoize         = 0x94
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
)

var errTruncated = errors.New("pickle: ends too early")

// unpickler is the stack machine that executes a pickle.
type unpickler struct {
	in    []byte
	stack []any
	memo  map[uint64]any
}

// unpickle reads one pickle of plain data, which must fill data completely.
// Work and memory are proportional to len(data).
func unpickle(data []byte) (any, error) {
	u := &unpickler{in: data, memo: map[uint64]any{}}
	proto, err := u.take(2)
	if err != nil {
		return nil, err
	}
	if proto[0] != opProto || proto[1] < 2 || proto[1] > 5 {
		return nil, errors.New("pickle: not of protocol 2 to 5")
	}
	for {
		op, err := u.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == opStop {
			return u.result()
		}
		if err := u.step(op[0]); err != nil {
			return nil, err
		}
		if len(u.stack) > maxPickleDepth {
			return nil, errors.New("pickle: too deep")
		}
	}
}

// result returns the only value left when the program stops.
func (u *unpickler) result() (any, error) {
	if len(u.in) > 0 {
		return nil, fmt.Errorf("pickle: %d bytes after its end", len(u.in))
	}
	if len(u.stack) != 1 {
		return nil, fmt.Errorf("pickle: leaves %d values", len(u.stack))
	}
	if _, ok := u.stack[0].(pyMark); ok {
		return nil, errors.New("pickle: a mark is not a value")
	}
	return u.stack[0], nil
}

// widths are the sizes, in bytes, of the numbers that follow opcodes: a value, a
// length, or an index of the memo.
var widths = map[byte]int{
	opFrame:  8,
	opBinInt: 4, opBinInt1: 1, opBinInt2: 2,
	opShortBinUnicode: 1, opBinUnicode: 4, opBinUnicode8: 8,
	opShortBinBytes: 1, opBinBytes: 4, opBinBytes8: 8,
	opBinPut: 1, opLongBinPut: 4, opBinGet: 1, opLongBinGet: 4,
}

func (u *unpickler) step(op byte) error {
	n, err := u.number(widths[op])
	if err != nil {
		return err
	}
	switch op {
	case opFrame: // a hint for readers of streams; everything is in memory already
	case opMark:
		u.push(pyMark{})
	case opEmptyDict:
		u.push(&pyDict{})
	case opEmptyList:
		u.push(&pyList{})
	case opEmptyTuple:
		u.push(pyTuple{})
	case opTuple, opTuple1, opTuple2, opTuple3:
		return u.tuple(op)
	case opAppend, opAppends, opSetItem, opSetItems:
		return u.extend(op)
	case opBinInt:
		u.push(int64(int32(n))) //nolint:gosec // Python writes a signed number in these four bytes
	case opBinInt1, opBinInt2:
		u.push(int64(n)) //nolint:gosec // two bytes at most
	case opShortBinUnicode, opBinUnicode, opBinUnicode8, opShortBinBytes, opBinBytes, opBinBytes8:
		return u.text(op, n)
	case opMemoize:
		return u.remember(uint64(len(u.memo)))
	case opBinPut, opLongBinPut:
		return u.remember(n)
	case opBinGet, opLongBinGet:
		v, ok := u.memo[n]
		if !ok {
			return fmt.Errorf("pickle: nothing remembered as %d", n)
		}
		u.push(v)
	default:
		return fmt.Errorf("pickle: opcode 0x%02x is not plain data", op)
	}
	return nil
}

func (u *unpickler) tuple(op byte) error {
	var items []any
	var err error
	if op == opTuple {
		items, err = u.popToMark()
	} else {
		items, err = u.popN(int(op-opTuple1) + 1)
	}
	if err == nil {
		u.push(pyTuple(items))
	}
	return err
}

// extend adds one value, or all above the mark, to the list or dict below.
func (u *unpickler) extend(op byte) error {
	var items []any
	var err error
	switch op {
	case opAppend:
		items, err = u.popN(1)
	case opSetItem:
		items, err = u.popN(2)
	default:
		items, err = u.popToMark()
	}
	if err != nil {
		return err
	}
	if len(u.stack) == 0 {
		return errors.New("pickle: nothing to add to")
	}
	switch target := u.stack[len(u.stack)-1].(type) {
	case *pyList:
		if op != opAppend && op != opAppends {
			return errors.New("pickle: key and value for a list")
		}
		target.items = append(target.items, items...)
	case *pyDict:
		if op != opSetItem && op != opSetItems || len(items)%2 != 0 {
			return errors.New("pickle: no key and value for a dict")
		}
		for i := 0; i < len(items); i += 2 {
			target.items = append(target.items, pyItem{items[i], items[i+1]})
		}
	default:
		return fmt.Errorf("pickle: cannot add to a %T", target)
	}
	return nil
}

// text reads a str or bytes of length n.
func (u *unpickler) text(op byte, n uint64) error {
	b, err := u.take(n)
	if err != nil {
		return err
	}
	switch op {
	case opShortBinUnicode, opBinUnicode, opBinUnicode8:
		if !utf8.Valid(b) {
			return errors.New("pickle: str is not UTF-8")
		}
		u.push(string(b))
	default:
		u.push(bytes.Clone(b))
	}
	return nil
}

// remember stores the top of the stack in the memo.
func (u *unpickler) remember(index uint64) error {
	if len(u.stack) == 0 {
		return errors.New("pickle: nothing to remember")
	}
	top := u.stack[len(u.stack)-1]
	if _, ok := top.(pyMark); ok {
		return errors.New("pickle: a mark cannot be remembered")
	}
	u.memo[index] = top
	return nil
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

// popN removes n values, none of which may be a mark, from the stack.
func (u *unpickler) popN(n int) ([]any, error) {
	at := len(u.stack) - n
	if at < 0 {
		return nil, errors.New("pickle: takes more values than there are")
	}
	items := slices.Clone(u.stack[at:])
	for _, v := range items {
		if _, ok := v.(pyMark); ok {
			return nil, errors.New("pickle: a mark is not a value")
		}
	}
	u.stack = u.stack[:at]
	return items, nil
}

// popToMark removes the topmost mark and all values above it, and returns the
// values.
func (u *unpickler) popToMark() ([]any, error) {
	for at := len(u.stack) - 1; at >= 0; at-- {
		if _, ok := u.stack[at].(pyMark); ok {
			items := slices.Clone(u.stack[at+1:])
			u.stack = u.stack[:at]
			return items, nil
		}
	}
	return nil, errors.New("pickle: no mark")
}

// number reads a little-endian unsigned number of width bytes.
func (u *unpickler) number(width int) (uint64, error) {
	b, err := u.take(uint64(width)) //nolint:gosec // the opcode implies the width
	if err != nil {
		return 0, err
	}
	var n uint64
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	return n, nil
}

// take returns the next n bytes of the pickle without copying them.
func (u *unpickler) take(n uint64) ([]byte, error) {
	if n > uint64(len(u.in)) {
		return nil, errTruncated
	}
	b := u.in[:n]
	u.in = u.in[n:]
	return b, nil
}
