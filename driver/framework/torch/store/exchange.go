// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Outgoing returns the messages that were not sent to the leader yet: this host's new
// operations, and the number of log entries that the host has applied. It returns each
// message only once. If messages get lost, the next Snapshot contains them again.
func (r *Replica) Outgoing() []wire.Put {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	var puts []wire.Put
	if r.unreported {
		puts = append(puts, havePut(r.applied, r.own, r.hosts))
	}
	return append(puts, r.take()...)
}

// take returns the operations that have not been sent, and marks them as sent.
func (r *Replica) take() []wire.Put {
	var puts []wire.Put
	for i := r.sent; i < len(r.pending); i++ {
		puts = append(puts, opPut(r.own+1+uint64(i), r.pending[i].op, r.hosts)) //nolint:gosec // an index
	}
	r.sent, r.unreported = len(r.pending), false
	return puts
}

// Snapshot returns everything that a new leader needs from this host: how many entries it
// has applied, the entries that other hosts may lack, and its operations that are not in
// the log.
func (r *Replica) Snapshot() wire.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.hosts == 1 {
		return wire.Snapshot{}
	}
	first := r.applied + 1 - uint64(len(r.tail))
	r.sent = 0
	return wire.Snapshot{Puts: append([]wire.Put{
		havePut(r.applied, r.own, r.hosts),
		logPut(batch{first: first, stable: first - 1, entries: r.tail}, r.hosts),
	}, r.take()...)}
}

// Fill applies entries from the leader. It ignores entries that this host has applied
// already.
func (r *Replica) Fill(f wire.Fill) error {
	if f.Scope != scopeLog {
		return fmt.Errorf("%w: fill of scope %.40q", errMalformed, f.Scope)
	}
	b, err := decodeBatch(f.Values[keyEntries])
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	r.unreported = true // the leader waits for it
	r.wake()
	if b.first > r.applied+1 {
		return fmt.Errorf("store: entries from %d on, but %d are missing", b.first, b.first-1-r.applied)
	}
	for i := range b.entries {
		if b.first+uint64(i) <= r.applied {
			continue
		}
		if err := r.append(b.entries[i]); err != nil {
			return err
		}
	}
	if first := r.applied - uint64(len(r.tail)); b.stable > first {
		n := min(b.stable, r.applied) - first
		clear(r.tail[:n])
		r.tail = r.tail[n:]
	}
	return nil
}

// append applies the next entry of the log, and answers the process that sent it.
func (r *Replica) append(e entry) error {
	own := e.host == r.host
	if own && (len(r.pending) == 0 || e.seq != r.own+1) {
		return fmt.Errorf("store: entry %d is operation %d of this host, whose next is %d of %d on their way",
			r.applied+1, e.seq, r.own+1, len(r.pending))
	}
	r.applied++
	r.tail = append(r.tail, e)
	var out outcome
	// If one host refuses an operation, all hosts refuse it, and it changes nothing.
	// Without this check a rank that is not on the entry's host could be charged for values
	// that it has not stored.
	switch n, o, err := decodeOp(e.op); {
	case err != nil:
		out.err = err
	case r.owners[n] != e.host:
		out.err = fmt.Errorf("%w: rank %d is not of host %s", ErrForeign, n, e.host)
	default:
		out = r.apply(n, &o)
	}
	if own {
		p := r.pending[0]
		r.pending[0] = nil
		r.pending = r.pending[1:]
		r.own++
		r.sent = max(0, r.sent-1)
		p.rank.pending--
		p.rank.bytes -= len(p.op)
		r.bytes -= len(p.op)
		if r.room != nil {
			close(r.room)
			r.room = nil
		}
		p.result <- out
	}
	return nil
}

// News returns a channel that receives an element when Outgoing or Up may have changed.
// Close closes the channel.
func (r *Replica) News() <-chan struct{} { return r.news }

// Formed records that the process of a rank is connected to all others.
func (r *Replica) Formed(rank int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.ranks[rank]; p != nil && !p.formed {
		p.formed = true
		r.wake()
	}
}

// Up reports whether the process of a rank is connected to all others.
func (r *Replica) Up(rank int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.ranks[rank]
	return p != nil && p.formed
}

// Withdraw is called for the rank of a process that died. It returns visible if that
// process may have changed the store, because other processes may have seen the change. It
// drops nothing.
func (r *Replica) Withdraw(rank int) (puts []wire.Put, visible bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.ranks[rank]
	return nil, p != nil && p.changed
}

// Close ends the store with its ring. All waiting and later operations return ErrOver.
func (r *Replica) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	close(r.over)
	close(r.news)
	r.table, r.tail, r.pending = newTable(), nil, nil
}

// wake sends an element to News.
func (r *Replica) wake() {
	if r.ended {
		return
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}
