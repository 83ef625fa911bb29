// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Bounds of the operations of one rank that its host has not applied yet. A connection has
// one such operation at a time, unless it ends before the answer.
const (
	maxPending      = 1024
	maxPendingBytes = maxStored
)

// maxOnTheWay bounds the operations of all ranks of a host that are not applied yet; others
// wait. Together with a log of maxLog they must fit into a Snapshot, a message of at most
// 256 MiB in which bytes take 4/3 of their length.
const maxOnTheWay = 112 << 20

// Replica is the store of one ring on one of its hosts. It is the host's side of the
// ring's exchange. All methods may be called concurrently.
type Replica struct {
	mu    sync.Mutex
	host  string
	hosts int // of the ring
	ranks map[int]*rank
	// owners holds the host of each rank.
	owners map[int]string

	table   *table
	waiters waiters

	// applied is the number of applied entries, own the number of this host's operations
	// among them. The last of the entries, tail, may be missing on other hosts.
	applied, own uint64
	tail         []entry
	// pending are the operations of this host that are not applied yet, numbered from
	// own+1. The leader has been sent the first of them, as many as sent.
	pending []*pending
	sent    int
	bytes   int           // of pending
	room    chan struct{} // closed when bytes decreases; nil while no one waits
	// unreported means that the leader has not been sent applied yet.
	unreported bool

	news  chan struct{}
	over  chan struct{}
	ended bool
}

// rank is a process of this host.
type rank struct {
	changed, formed bool
	pending, bytes  int // operations not applied yet, and their size
}

// pending is an operation that is not applied yet.
type pending struct {
	rank   *rank
	op     []byte
	result chan outcome // has room for one
}

type outcome struct {
	Result
	err error
}

// NewReplica starts the store of a ring on a host with members in it.
func NewReplica(host elastic.HostID, r *elastic.Ring) (*Replica, error) {
	p := &Replica{
		host: string(host), hosts: len(r.Hosts()), ranks: map[int]*rank{}, owners: map[int]string{},
		table: newTable(), waiters: waiters{byKey: map[string][]*waiter{}},
		news: make(chan struct{}, 1), over: make(chan struct{}),
	}
	for _, m := range r.Members {
		p.owners[m.Assignment.Rank] = string(m.Proc.Slot.Host)
		if m.Proc.Slot.Host == host {
			p.ranks[m.Assignment.Rank] = &rank{}
		}
	}
	if len(p.ranks) == 0 {
		return nil, fmt.Errorf("store: host %s has no member in ring %d", host, r.Generation)
	}
	if p.hosts > 1 {
		p.unreported = true // the leader sends entries only to hosts that it has heard from
		p.wake()
	}
	return p, nil
}

// Client gives one process access to the store.
type Client struct {
	replica *Replica
	rank    int
}

// Client returns the store for the process of a rank.
func (r *Replica) Client(rank int) *Client { return &Client{replica: r, rank: rank} }

// Do performs one operation. An operation that changes the store is performed even if ctx
// ends before its answer. Do returns ErrOver once the ring has ended.
func (c *Client) Do(ctx context.Context, op Op) (Result, error) {
	if err := op.valid(); err != nil {
		return Result{}, err
	}
	switch {
	case op.Kind.changes():
		return c.replica.change(ctx, c.rank, &op)
	case op.Kind == Wait:
		return Result{}, c.replica.wait(ctx, c.rank, op.Keys)
	case op.Kind == Barrier:
		return Result{}, c.replica.barrier(ctx, c.rank, op.Key, op.Number)
	}
	res, err := c.replica.read(c.rank, &op)
	slices.Sort(res.Keys) // without the lock, because many keys take long
	return res, err
}

// read performs an operation that only reads and does not wait.
func (r *Replica) read(n int, o *Op) (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.local(n); err != nil {
		return Result{}, err
	}
	if o.Kind == Yield {
		r.yield(o.Keys)
		return Result{}, nil
	}
	return r.table.read(o)
}

// local returns the rank of a process on this host.
func (r *Replica) local(n int) (*rank, error) {
	if r.ended {
		return nil, ErrOver
	}
	p := r.ranks[n]
	if p == nil {
		return nil, fmt.Errorf("%w: rank %d", ErrForeign, n)
	}
	return p, nil
}

// change performs an operation in the order of the log.
func (r *Replica) change(ctx context.Context, n int, o *Op) (Result, error) {
	p, room, err := r.submit(n, o)
	for room != nil && err == nil {
		select {
		case <-room:
			p, room, err = r.submit(n, o)
		case <-r.over:
			return Result{}, ErrOver
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
	if err != nil {
		return Result{}, err
	}
	select {
	case out := <-p.result:
		return out.Result, out.err
	default:
	}
	select {
	case out := <-p.result:
		return out.Result, out.err
	case <-r.over:
		return Result{}, ErrOver
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

// submit queues an operation, unless it must wait for room. If the ring has no other host,
// it applies the operation at once.
func (r *Replica) submit(n int, o *Op) (_ *pending, room <-chan struct{}, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, err := r.local(n)
	if err != nil {
		return nil, nil, err
	}
	p := &pending{rank: from, result: make(chan outcome, 1)}
	if r.hosts == 1 {
		from.changed = true
		p.result <- r.apply(n, o)
		return p, nil, nil
	}
	p.op = appendOp(nil, n, o)
	if from.pending >= maxPending || from.bytes+len(p.op) > maxPendingBytes {
		return nil, nil, fmt.Errorf("%w: rank %d has %d operations of %d bytes on their way, the most is %d of %d",
			ErrTooMuch, n, from.pending, from.bytes, maxPending, maxPendingBytes)
	}
	if r.bytes+len(p.op) > maxOnTheWay {
		if r.room == nil {
			r.room = make(chan struct{})
		}
		return nil, r.room, nil
	}
	from.changed = true
	from.pending++
	from.bytes += len(p.op)
	r.bytes += len(p.op)
	r.pending = append(r.pending, p)
	r.wake()
	return p, nil, nil
}

// apply performs an operation and wakes the processes that waited for it.
func (r *Replica) apply(n int, o *Op) outcome {
	res, err := r.table.apply(n, o)
	for _, p := range o.Pairs {
		r.notice(p.Key)
	}
	switch {
	case o.Kind == Push && err == nil:
		r.waiters.queued(o.Key)
	case o.Kind != MultiSet:
		r.notice(o.Key)
	}
	return outcome{res, err}
}

// notice wakes the processes that wait for a key, if it exists.
func (r *Replica) notice(key string) {
	if _, found := r.table.values[key]; !found || len(r.waiters.byKey[key]) == 0 {
		return
	}
	r.waiters.value(key, r.reached(key))
}

// reached returns the number at a key, the least possible if it has none.
func (r *Replica) reached(key string) int64 {
	n, err := r.table.number(key)
	if err != nil {
		return math.MinInt64
	}
	return n
}

// wait waits until each of the keys has existed.
func (r *Replica) wait(ctx context.Context, n int, keys []string) error {
	return r.await(ctx, n, func() ([]string, int64) {
		var missing []string
		seen := map[string]bool{}
		for _, k := range keys {
			if !r.table.has(k) && !seen[k] {
				seen[k] = true
				missing = append(missing, k)
			}
		}
		return missing, 0
	})
}

// barrier adds 1 to a key and waits until it is at least the number.
func (r *Replica) barrier(ctx context.Context, n int, key string, least int64) error {
	if _, err := r.change(ctx, n, &Op{Kind: Add, Key: key, Number: 1}); err != nil {
		return err
	}
	return r.await(ctx, n, func() ([]string, int64) {
		if r.reached(key) >= least {
			return nil, 0
		}
		return []string{key}, least
	})
}

// await waits for the keys that look reports as missing, or as not having reached their
// number yet.
func (r *Replica) await(ctx context.Context, n int, look func() (missing []string, least int64)) error {
	r.mu.Lock()
	if _, err := r.local(n); err != nil {
		r.mu.Unlock()
		return err
	}
	missing, least := look()
	if len(missing) == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.waiters.count >= maxWaiters {
		r.mu.Unlock()
		return fmt.Errorf("%w: %d waits on this host, the most there may be", ErrTooMuch, maxWaiters)
	}
	w := r.waiters.add(least, missing...)
	r.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-r.over:
		return ErrOver
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if woken := r.waiters.drop(w); woken {
			r.yield(w.keys)
		}
		return ctx.Err()
	}
}

// yield wakes one other waiter for each of the queues that has values.
func (r *Replica) yield(keys []string) {
	for _, k := range keys {
		if len(r.table.queues[k]) > 0 {
			r.waiters.queued(k)
		}
	}
}
