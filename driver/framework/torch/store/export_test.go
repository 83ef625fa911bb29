// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import "github.com/kolo-nomad/kolo/driver/agent/wire"

// Limits that tests reach.
const (
	MaxStored  = maxStored
	MaxPending = maxPending
	MaxWaiters = maxWaiters
	MaxBatch   = maxBatch
	MaxLog     = maxLog
)

// Ordered is an operation in the log.
type Ordered struct {
	Index uint64
	Rank  int
	Op    Op
}

// Entries decodes the entries of a Fill.
func Entries(f wire.Fill) ([]Ordered, error) {
	b, err := decodeBatch(f.Values[keyEntries])
	if err != nil {
		return nil, err
	}
	var all []Ordered
	for i, e := range b.entries {
		rank, op, err := decodeOp(e.op)
		if err != nil {
			return nil, err
		}
		all = append(all, Ordered{b.first + uint64(i), rank, op})
	}
	return all, nil
}

// AppendOp encodes an operation as hosts send it.
func AppendOp(rank int, o Op) []byte { return appendOp(nil, rank, &o) }

// Applied returns how many entries the replica has applied.
func (r *Replica) Applied() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied
}

// Begun returns how many operations of this host are in the log or not applied yet.
func (r *Replica) Begun() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.own) + len(r.pending)
}

// Waits returns the number of waiters.
func (r *Replica) Waits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiters.count
}

// Tail returns how many entries the replica keeps for other hosts.
func (r *Replica) Tail() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tail)
}

// Kept returns how many entries, and how many operations without a place, the leader keeps.
func (s *Sequencer) Kept() (entries, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log), len(s.held)
}
