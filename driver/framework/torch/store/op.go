// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"fmt"
)

// Kind is the kind of an operation.
type Kind uint8

// Operations that change the store. Agents send each other these numbers.
const (
	// Set stores Value.
	Set Kind = iota + 1
	// CompareSet stores Value if the key has the value Expected, or if the key is missing
	// and Expected is empty. The result is the key's value after that, or Expected if the
	// key is missing.
	CompareSet
	// Add adds Number to the decimal number at the key, which is 0 if the key is missing.
	// The result is the sum.
	Add
	// Append adds Value to the end of the key's value.
	Append
	// MultiSet stores all Pairs.
	MultiSet
	// Delete removes the key. The result is 1, or 0 if it was missing.
	Delete
	// Push appends Value to the queue of that name. Queues and keys do not share their
	// names.
	Push
	// Pop takes the first value from a queue. The result also contains how many values were
	// in the queue before, 0 if it was empty.
	Pop
)

// Operations that read the store.
const (
	// Get reads the value of the key, which is empty if the key is missing.
	Get Kind = iota + 64
	// MultiGet reads the values of Keys.
	MultiGet
	// Check returns 1 if each of Keys is a key with a value or a queue that is not empty,
	// else 0.
	Check
	// Wait waits until each of Keys exists or has existed before.
	Wait
	// Barrier adds 1 to the key, and waits until it is at least Number.
	Barrier
	// NumKeys counts the keys.
	NumKeys
	// ListKeys reads the names of all keys, sorted.
	ListKeys
	// QueueLen counts the values of a queue.
	QueueLen
	// Yield ends a process's interest in Keys that it has waited for. If one of them is a
	// queue with values, another waiting process is woken.
	Yield
)

// Op is one operation. Its kind determines which fields it uses.
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

// Result is the result of an operation. Values are shared: do not change them.
type Result struct {
	Number int64
	Value  []byte
	Values [][]byte
	Keys   []string
}

var (
	// ErrOver means that the ring has ended.
	ErrOver = errors.New("store: the ring is over")
	// ErrForeign means that the rank's process is not on this host.
	ErrForeign = errors.New("store: rank of another host")
	// ErrTooMuch means that an operation exceeds a bound.
	ErrTooMuch = errors.New("store: beyond the bounds of the store")
	// ErrNumber means that Add found a value that is not a number.
	ErrNumber = errors.New("store: value is not a number")
	// ErrUnknown means that the operation's kind is unknown.
	ErrUnknown = errors.New("store: unknown operation")
)

// Bounds of one operation. The bounds of keys, and of the number of keys, are PyTorch's own
// (MAX_STRING_LEN, MAX_PAYLOAD_LEN and MAX_KEY_COUNT in TCPStoreLibUvBackend.cpp).
const (
	// MaxKey is the longest key in bytes.
	MaxKey = 8 << 10
	// MaxValue is the longest value in bytes. In a group of n ranks, the addresses of one
	// rank take 136 bytes times n.
	MaxValue = 8 << 20
	// MaxKeys is the largest number of keys in one operation.
	MaxKeys = 128 << 10
	// MaxOp is the largest size of an operation in bytes. The size is that of all keys and
	// values, plus 64 bytes, plus another 64 bytes for each key or pair of a list.
	MaxOp = 16 << 20
)

// changes reports whether an operation of this kind goes into the log.
func (k Kind) changes() bool { return k >= Set && k <= Pop }

// size returns the operation's size in bytes.
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
