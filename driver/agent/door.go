// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"sync"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/horovod/rendezvous"
)

// seat is a process's place in one ring.
type seat struct {
	ring       RingID
	assignment elastic.Assignment
	store      *rendezvous.Store
	// used is set with the first rendezvous request: the process knows its
	// place.
	used bool
}

// door answers the requests of one process. Whoever has no seat is held; it is
// what lets newcomers wait with everything imported, and survivors wait while
// there is no leader.
type door struct {
	proc    elastic.Proc
	standIn bool
	// arrived, waiting and notifiable are called when the process reaches the
	// rendezvous, asks for its next rank after a ring, and can be notified.
	arrived    func()
	waiting    func(generation uint64)
	notifiable func(rendezvous.NotifyTarget)

	once sync.Once

	mu      sync.Mutex
	seat    *seat
	left    uint64 // generation that the process has left
	addrs   map[netip.AddrPort]bool
	changed chan struct{}
}

// admit gives the process a place.
func (d *door) admit(s *seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seat, d.addrs = s, map[netip.AddrPort]bool{}
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// gloo returns the addresses by which the connections of the process's present
// ring are known, and its generation.
func (d *door) gloo() (map[netip.AddrPort]bool, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seat == nil {
		return nil, 0
	}
	return maps.Clone(d.addrs), d.seat.ring.Generation
}

// place waits for the process's seat.
func (d *door) place(ctx context.Context, ready func(*seat) bool) (*seat, error) {
	for {
		d.mu.Lock()
		if d.seat != nil && ready(d.seat) {
			defer d.mu.Unlock()
			return d.seat, nil
		}
		if d.changed == nil {
			d.changed = make(chan struct{})
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", rendezvous.ErrHold, ctx.Err())
		case <-changed:
		}
	}
}

// enter waits for the seat and notes that the process uses it.
func (d *door) enter(ctx context.Context) (*seat, error) {
	d.once.Do(d.arrived)
	s, err := d.place(ctx, func(*seat) bool { return true })
	if err == nil {
		d.mu.Lock()
		s.used = true
		d.mu.Unlock()
	}
	return s, err
}

// maxGlooAddrs bounds the addresses that a door remembers of one ring: six
// meshes of 10,000 ranks.
const maxGlooAddrs = 1 << 16

// note remembers the listening addresses in a blob.
func (d *door) note(key string, blob []byte) {
	if _, err := strconv.Atoi(key); err != nil {
		return
	}
	addrs := blobAddrs(blob)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range addrs {
		if len(d.addrs) < maxGlooAddrs {
			d.addrs[a] = true
		}
	}
}

// Put stores a value of the process.
func (d *door) Put(ctx context.Context, scope, key string, value []byte) error {
	s, err := d.enter(ctx)
	if err != nil {
		return err
	}
	d.note(key, value)
	return s.store.Put(s.assignment.Rank, scope, key, value)
}

// Get waits for a value.
func (d *door) Get(ctx context.Context, scope, key string) ([]byte, bool, error) {
	s, err := d.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	value, found, err := s.store.Get(ctx, s.assignment.Rank, scope, key)
	if err == nil && found {
		d.note(key, value)
	}
	return value, found, err
}

// Delete is how the process leaves a mesh. A stand-in never leaves the last.
func (d *door) Delete(ctx context.Context, scope, key string) error {
	s, err := d.enter(ctx)
	if err != nil {
		return err
	}
	if err := s.store.Delete(s.assignment.Rank, scope, key); err != nil {
		return err
	}
	if d.standIn && s.store.Up(s.assignment.Rank) {
		return rendezvous.ErrHold
	}
	return nil
}

// RankAndSize is what a process asks when it has left its ring; it is held
// until it has a place in the next one.
func (d *door) RankAndSize(ctx context.Context) (rendezvous.Assignment, error) {
	d.mu.Lock()
	if d.seat != nil && d.seat.used {
		d.left = d.seat.ring.Generation
		d.seat = nil
		go d.waiting(d.left)
	}
	d.mu.Unlock()
	s, err := d.place(ctx, func(s *seat) bool { return s.ring.Generation > d.left })
	if err != nil {
		return rendezvous.Assignment{}, err
	}
	return rendezvous.Assignment(s.assignment), nil
}

// WorkerAddress is told once per process.
func (d *door) WorkerAddress(_ context.Context, t rendezvous.NotifyTarget) error {
	d.mu.Lock()
	if d.seat != nil {
		d.seat.store.Initialized(d.seat.assignment.Rank)
	}
	d.mu.Unlock()
	d.notifiable(t)
	return nil
}
