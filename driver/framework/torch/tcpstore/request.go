// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
)

// command is the first byte of a request.
type command uint8

const (
	cmdValidate command = iota
	cmdSet
	cmdCompareSet
	cmdGet
	cmdAdd
	cmdCheck
	cmdWait
	cmdNumKeys
	cmdDelete
	cmdAppend
	cmdMultiGet
	cmdMultiSet
	cmdCancelWait
	cmdPing
	cmdQueuePush
	cmdQueuePop
	cmdQueueLen
	cmdListKeys
	cmdBarrier
)

// validation is the number that a client sends with cmdValidate.
const validation = 0x3C85F7CE

var (
	errProtocol = errors.New("not TCPStore's protocol")
	errTooLarge = errors.New("request is too large")
)

// request is one request of a client. op is set for commands that are operations of the store.
type request struct {
	command command
	number  uint32 // of cmdValidate and cmdPing
	op      store.Op
	size    int64 // its share of the budget
}

// budget bounds the memory of the requests of all connections of a slot.
type budget struct {
	used atomic.Int64
	most int64
}

func (b *budget) release(n int64) { b.used.Add(-n) }

// requestReader reads requests. For a length it allocates only a small part of the memory until the
// bytes arrive.
type requestReader struct {
	r      *bufio.Reader
	budget *budget
	size   int64 // of the current request
	err    error // the first error, after which all fields are empty
}

// read reads the rest of a request after its command byte. Unless it returns an error, the caller
// must return the request's share of the budget.
func (r *requestReader) read(c command) (request, error) {
	r.size, r.err = 0, nil
	req := request{command: c}
	switch c {
	case cmdValidate, cmdPing:
		req.number = r.uint32()
	case cmdCancelWait:
	case cmdNumKeys:
		req.op.Kind = store.NumKeys
	case cmdListKeys:
		req.op.Kind = store.ListKeys
	case cmdCheck, cmdWait, cmdMultiGet:
		req.op = store.Op{Kind: kinds[c], Keys: r.keys()}
	case cmdMultiSet:
		req.op = store.Op{Kind: store.MultiSet, Pairs: r.pairs()}
	case cmdSet, cmdAppend, cmdQueuePush:
		req.op = store.Op{Kind: kinds[c], Key: r.key(), Value: r.value()}
	case cmdCompareSet:
		req.op = store.Op{Kind: store.CompareSet, Key: r.key(), Expected: r.value(), Value: r.value()}
	case cmdAdd, cmdBarrier:
		req.op = store.Op{Kind: kinds[c], Key: r.key(), Number: r.int64()}
	case cmdGet, cmdDelete, cmdQueuePop, cmdQueueLen:
		req.op = store.Op{Kind: kinds[c], Key: r.key()}
	default:
		r.err = fmt.Errorf("%w: command %d", errProtocol, c)
	}
	if r.err != nil {
		r.budget.release(r.size)
		return request{}, r.err
	}
	req.size = r.size
	return req, nil
}

var kinds = map[command]store.Kind{
	cmdCheck: store.Check, cmdWait: store.Wait, cmdMultiGet: store.MultiGet, cmdSet: store.Set, cmdAppend: store.Append,
	cmdQueuePush: store.Push, cmdAdd: store.Add, cmdBarrier: store.Barrier, cmdGet: store.Get, cmdDelete: store.Delete,
	cmdQueuePop: store.Pop, cmdQueueLen: store.QueueLen,
}

func (r *requestReader) fixed(b []byte) []byte {
	if r.err == nil {
		_, r.err = io.ReadFull(r.r, b)
	}
	return b
}

func (r *requestReader) uint32() uint32 { return binary.LittleEndian.Uint32(r.fixed(make([]byte, 4))) }

func (r *requestReader) int64() int64 {
	return int64(binary.LittleEndian.Uint64(r.fixed(make([]byte, 8)))) //nolint:gosec // two's complement, as it was sent
}

// length reads a length of at most most.
func (r *requestReader) length(what string, most int) int {
	n := r.int64()
	if r.err == nil && (n < 0 || n > int64(most)) {
		r.err = fmt.Errorf("%w: %s of length %d, the most is %d", errTooLarge, what, uint64(n), most) //nolint:gosec // as it was sent
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// step is how much memory is allocated for a length before bytes arrive.
const step = 64 << 10

// bytes reads n bytes.
func (r *requestReader) bytes(n int) []byte {
	var b []byte
	for r.err == nil && len(b) < n {
		more := min(n-len(b), max(len(b), step))
		if !r.take(more) {
			break
		}
		b = slices.Grow(b, more)
		b = b[:len(b)+more]
		_, r.err = io.ReadFull(r.r, b[len(b)-more:])
	}
	return b
}

// take counts bytes towards the bounds of a request and of the slot.
func (r *requestReader) take(n int) bool {
	r.size += int64(n)
	used := r.budget.used.Add(int64(n))
	switch {
	case r.size > store.MaxOp:
		r.err = fmt.Errorf("%w: more than %d bytes", errTooLarge, store.MaxOp)
	case used > r.budget.most:
		r.err = fmt.Errorf("%w: the connections of this slot have requests of more than %d bytes at once", errTooLarge, r.budget.most)
	}
	return r.err == nil
}

func (r *requestReader) key() string { return string(r.bytes(r.length("key", store.MaxKey))) }

func (r *requestReader) value() []byte { return r.bytes(r.length("value", store.MaxValue)) }

// keyCost is charged for a key of a list in addition to its bytes; see store.MaxOp.
const keyCost = 64

func (r *requestReader) keys() []string {
	var keys []string
	for range r.length("list of keys", store.MaxKeys) {
		if !r.take(keyCost) {
			break
		}
		keys = append(keys, r.key())
		if r.err != nil {
			break
		}
	}
	return keys
}

func (r *requestReader) pairs() []store.Pair {
	var pairs []store.Pair
	for range r.length("list of keys", store.MaxKeys) {
		if !r.take(keyCost) {
			break
		}
		pairs = append(pairs, store.Pair{Key: r.key(), Value: r.value()})
		if r.err != nil {
			break
		}
	}
	return pairs
}
