// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds for the values of the ranks. A value is charged to the rank that stored it last.
const (
	maxStored = 16 << 20 // of one rank, in bytes
	maxKeys   = 1 << 20  // of the ring, including the values of queues
	keyExtra  = 256      // bytes charged for each value in addition to its own
	opExtra   = 64       // bytes charged for each operation, and for each key of a list
)

// table is the store after some entries of the log. It must be the same on each host, so
// everything in it depends on the entries alone.
type table struct {
	values map[string]item
	queues map[string][]item
	// stored is the number of bytes charged to each rank; held counts all values.
	stored map[int]int
	held   int
}

// item is a value and the rank that is charged for it.
type item struct {
	data []byte
	rank int
	cost int
}

func newTable() *table {
	return &table{values: map[string]item{}, queues: map[string][]item{}, stored: map[int]int{}}
}

// apply performs an operation of a rank that changes the store.
func (t *table) apply(rank int, o *Op) (Result, error) {
	switch o.Kind {
	case Set:
		return Result{}, t.set(rank, o.Key, o.Value)
	case CompareSet:
		return t.compareSet(rank, o)
	case Add:
		return t.add(rank, o)
	case Append:
		return Result{}, t.append(rank, o)
	case MultiSet:
		for _, p := range o.Pairs {
			if err := t.set(rank, p.Key, p.Value); err != nil {
				return Result{}, err
			}
		}
		return Result{}, nil
	case Delete:
		old, found := t.values[o.Key]
		if !found {
			return Result{}, nil
		}
		t.release(old)
		delete(t.values, o.Key)
		return Result{Number: 1}, nil
	case Push:
		it, err := t.charge(rank, o.Key, slices.Clone(o.Value), item{})
		if err == nil {
			t.queues[o.Key] = append(t.queues[o.Key], it)
		}
		return Result{}, err
	case Pop:
		return t.pop(o.Key), nil
	default:
		return Result{}, fmt.Errorf("%w: kind %d", ErrUnknown, o.Kind)
	}
}

// set stores a copy of a value, since the original may be a small part of a large message.
func (t *table) set(rank int, key string, value []byte) error {
	it, err := t.charge(rank, key, slices.Clone(value), t.values[key])
	if err == nil {
		t.values[key] = it
	}
	return err
}

func (t *table) compareSet(rank int, o *Op) (Result, error) {
	old, found := t.values[o.Key]
	switch {
	case !found && len(o.Expected) > 0:
		return Result{Value: o.Expected}, nil
	case !bytes.Equal(old.data, o.Expected):
		return Result{Value: old.data}, nil
	}
	return Result{Value: o.Value}, t.set(rank, o.Key, o.Value)
}

func (t *table) add(rank int, o *Op) (Result, error) {
	n, err := t.number(o.Key)
	if err != nil {
		return Result{}, err
	}
	if o.Number > 0 && n > math.MaxInt64-o.Number || o.Number < 0 && n < math.MinInt64-o.Number {
		return Result{}, fmt.Errorf("%w: the sum is too large", ErrNumber)
	}
	n += o.Number
	return Result{Number: n}, t.set(rank, o.Key, strconv.AppendInt(nil, n, 10))
}

// append appends to a value. The rank that set the value continues to be charged for it.
func (t *table) append(rank int, o *Op) error {
	old, found := t.values[o.Key]
	if !found {
		return t.set(rank, o.Key, o.Value)
	}
	if n := len(old.data) + len(o.Value); n > MaxValue {
		return fmt.Errorf("%w: value of %d bytes, the most is %d", ErrTooMuch, n, MaxValue)
	}
	it, err := t.charge(old.rank, o.Key, append(old.data, o.Value...), old)
	if err == nil {
		t.values[o.Key] = it
	}
	return err
}

func (t *table) pop(key string) Result {
	queue := t.queues[key]
	if len(queue) == 0 {
		return Result{}
	}
	first := queue[0]
	t.release(first)
	if queue[0] = (item{}); len(queue) == 1 {
		delete(t.queues, key)
	} else {
		t.queues[key] = queue[1:]
	}
	return Result{Number: int64(len(queue)), Value: first.data}
}

// charge charges a rank for a value that replaces another, or none.
func (t *table) charge(rank int, key string, data []byte, old item) (item, error) {
	it := item{data: data, rank: rank, cost: len(key) + len(data) + keyExtra}
	stored := t.stored[rank] + it.cost
	if old.rank == rank {
		stored -= old.cost
	}
	if stored > maxStored {
		return item{}, fmt.Errorf("%w: rank %d stores %d bytes, the most is %d: keys stay until they are deleted, or the ring changes",
			ErrTooMuch, rank, stored, maxStored)
	}
	if old.cost == 0 && t.held >= maxKeys {
		return item{}, fmt.Errorf("%w: the ring has %d keys, the most there may be", ErrTooMuch, t.held)
	}
	t.release(old)
	t.stored[rank] += it.cost
	t.held++
	return it, nil
}

func (t *table) release(it item) {
	if it.cost > 0 {
		t.stored[it.rank] -= it.cost
		t.held--
	}
}

// number returns the decimal number at a key, 0 if the key is missing. Like C's strtoll,
// which PyTorch's store uses, it ignores spaces before the number and anything after it.
func (t *table) number(key string) (int64, error) {
	it, found := t.values[key]
	if !found {
		return 0, nil
	}
	text := strings.TrimLeft(string(it.data[:min(len(it.data), 64)]), " \t\n\v\f\r")
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || end == 0 && (text[0] == '-' || text[0] == '+')) {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNumber, err)
	}
	return n, nil
}

// has reports whether a key has a value, or is a queue with one.
func (t *table) has(key string) bool {
	_, found := t.values[key]
	return found || len(t.queues[key]) > 0
}

// read performs an operation that only reads and does not wait. Lists of keys are unsorted.
func (t *table) read(o *Op) (Result, error) {
	switch o.Kind {
	case Get:
		return Result{Value: t.values[o.Key].data}, nil
	case MultiGet:
		values := make([][]byte, len(o.Keys))
		for i, k := range o.Keys {
			values[i] = t.values[k].data
		}
		return Result{Values: values}, nil
	case Check:
		if slices.ContainsFunc(o.Keys, func(k string) bool { return !t.has(k) }) {
			return Result{}, nil
		}
		return Result{Number: 1}, nil
	case NumKeys:
		return Result{Number: int64(len(t.values))}, nil
	case ListKeys:
		return Result{Keys: slices.AppendSeq(make([]string, 0, len(t.values)), maps.Keys(t.values))}, nil
	case QueueLen:
		return Result{Number: int64(len(t.queues[o.Key]))}, nil
	default:
		return Result{}, fmt.Errorf("%w: kind %d", ErrUnknown, o.Kind)
	}
}
