// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"fmt"
)

// Kind is what an operation does.
type Kind uint8

// Operations that change the store. Agents send each other these numbers.
const (
	// Set stores Value.
	Set Kind = iota + 1
	// CompareSet stores Value where the key has the value Expected, or is missing
	// and Expected is empty. The result is the value that the key has then;
	// Expected, if the key is missing.
	CompareSet
	// Add adds Number to the decimal number of the key, 0 where it is missing. The
	// result is the sum.
	Add
	// Append adds Value to the end of the key's value.
	Append
	// MultiSet stores all Pairs.
	MultiSet
	// Delete removes the key. The result is 1, or 0 where it was missing.
	Delete
	// Push adds Value to the end of the queue of that name. Queues and keys have
	// names of their own.
	Push
	// Pop takes the first value from a queue. The result is also the number of values
	// there were, 0 for none.
	Pop
)

// Operations that read the store.
const (
	// Get reads the value of the key, empty where it is missing.
	Get Kind = iota + 64
	// MultiGet reads the values of Keys.
	MultiGet
	// Check reports 1 if all Keys have a value, or are queues with one.
	Check
	// Wait waits until each of Keys has been there.
	Wait
	// Barrier adds 1 to the key, and waits until it is at least Number.
	Barrier
	// NumKeys counts the keys.
	NumKeys
	// ListKeys reads the names of all keys, sorted.
	ListKeys
	// QueueLen counts the values of a queue.
	QueueLen
	// Yield is for a process that has waited for Keys and leaves them to others: where
	// one is a queue with values, another process that waits for it is woken.
	Yield
)

// Op is one operation. Which fields it uses depends on its kind.
type Op struct {
	Kind     Kind
	Key      string
	Value    []byte
	Expected []byte
	Number   int64
	Keys     []string
	Pairs    []Pair
}

// Pair is a key and its value.
type Pair struct {
	Key   string
	Value []byte
}

// Result is the answer to an operation. Values are shared: do not change them.
type Result struct {
	Number int64
	Value  []byte
	Values [][]byte
	Keys   []string
}

var (
	// ErrOver is the answer once the ring is over.
	ErrOver = errors.New("store: the ring is over")
	// ErrForeign is the answer to a rank whose process is not of this host.
	ErrForeign = errors.New("store: rank of another host")
	// ErrTooMuch is the answer to an operation beyond a bound.
	ErrTooMuch = errors.New("store: beyond the bounds of the store")
	// ErrNumber is the answer to Add where the value is no number.
	ErrNumber = errors.New("store: value is not a number")
	// ErrUnknown is the answer to an operation of no known kind.
	ErrUnknown = errors.New("store: unknown operation")
)

// Bounds of one operation. Those of keys, and of the keys of one operation, are
// PyTorch's own (MAX_STRING_LEN, MAX_PAYLOAD_LEN and MAX_KEY_COUNT in
// TCPStoreLibUvBackend.cpp).
const (
	// MaxKey is the longest key in bytes.
	MaxKey = 8 << 10
	// MaxValue is the longest value in bytes. The addresses of one rank among n take
	// 136 bytes times n.
	MaxValue = 8 << 20
	// MaxKeys is how many keys one operation may have.
	MaxKeys = 128 << 10
	// MaxOp is how many bytes one operation may take, 64 for each key of a list among
	// them.
	MaxOp = 16 << 20
)

// changes reports whether an operation of this kind goes into the log.
func (k Kind) changes() bool { return k >= Set && k <= Pop }

// size is what the operation takes, in bytes.
func (o *Op) size() int {
	n := opExtra + len(o.Key) + len(o.Value) + len(o.Expected)
	for _, k := range o.Keys {
		n += len(k) + opExtra
	}
	for _, p := range o.Pairs {
		n += len(p.Key) + len(p.Value) + opExtra
	}
	return n
}

// valid checks the bounds of one operation.
func (o *Op) valid() error {
	if n := len(o.Keys) + len(o.Pairs); n > MaxKeys {
		return fmt.Errorf("%w: %d keys in one operation, the most is %d", ErrTooMuch, n, MaxKeys)
	}
	if n := o.size(); n > MaxOp {
		return fmt.Errorf("%w: operation of %d bytes, the most is %d", ErrTooMuch, n, MaxOp)
	}
	if err := validPair(o.Key, o.Value); err != nil {
		return err
	}
	for _, k := range o.Keys {
		if err := validPair(k, nil); err != nil {
			return err
		}
	}
	for _, p := range o.Pairs {
		if err := validPair(p.Key, p.Value); err != nil {
			return err
		}
	}
	return nil
}

func validPair(key string, value []byte) error {
	switch {
	case len(key) > MaxKey:
		return fmt.Errorf("%w: key of %d bytes, the most is %d", ErrTooMuch, len(key), MaxKey)
	case len(value) > MaxValue:
		return fmt.Errorf("%w: value of %d bytes, the most is %d", ErrTooMuch, len(value), MaxValue)
	}
	return nil
}
