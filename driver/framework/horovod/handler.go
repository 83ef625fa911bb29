// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package horovod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// placement is the place of a process in one ring.
type placement struct {
	generation uint64
	assignment elastic.Assignment
	store      *rendezvous.Store
	// used is set by the first rendezvous request, which shows that the process knows its
	// place.
	used bool
}

// handler answers the requests of one process. Requests wait until the process has a
// placement: newcomers wait with their imports done, and survivors wait while there is no
// leader.
type handler struct {
	surrogate bool
	events    host.Events

	once sync.Once

	mu      sync.Mutex
	present *placement
	left    uint64                  // generation that the process has left
	rank    int                     // its rank there
	addrs   map[netip.AddrPort]bool // of the ring's members, as far as known
	own     map[netip.AddrPort]bool // the process's own among addrs
	target  rendezvous.NotifyTarget
	changed chan struct{}
}

// admit gives the process a place.
func (h *handler) admit(p *placement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.present, h.addrs, h.own = p, map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// Connections returns the addresses that identify the connections of the process's current
// ring, and the ring's generation.
func (h *handler) Connections() (map[netip.AddrPort]bool, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.present == nil {
		return nil, 0
	}
	return maps.Clone(h.addrs), h.present.generation
}

// Listening returns the addresses at which the process listens, as it has published them.
func (h *handler) Listening() ([]netip.AddrPort, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.present == nil {
		return nil, 0
	}
	return slices.SortedFunc(maps.Keys(h.own), netip.AddrPort.Compare), h.present.generation
}

// await waits for a placement that is ready.
func (h *handler) await(ctx context.Context, ready func(*placement) bool) (*placement, error) {
	for {
		h.mu.Lock()
		if h.present != nil && ready(h.present) {
			defer h.mu.Unlock()
			return h.present, nil
		}
		if h.changed == nil {
			h.changed = make(chan struct{})
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", rendezvous.ErrHold, ctx.Err())
		case <-changed:
		}
	}
}

// enter waits for the placement, and records that the process uses it.
func (h *handler) enter(ctx context.Context) (*placement, error) {
	h.once.Do(func() { h.events.Arrived(false) })
	p, err := h.await(ctx, func(*placement) bool { return true })
	if err == nil {
		h.mu.Lock()
		p.used = true
		h.mu.Unlock()
	}
	return p, err
}

// maxAddresses bounds the addresses that a handler remembers of one ring: six
// meshes of 10,000 ranks.
const maxAddresses = 1 << 16

// remember records the listening addresses in a blob. own states whether they are the
// process's.
func (h *handler) remember(key string, blob []byte, own bool) {
	if _, err := strconv.Atoi(key); err != nil {
		return
	}
	addrs := blobAddresses(blob)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range addrs {
		if len(h.addrs) < maxAddresses {
			h.addrs[a] = true
		}
		if own && len(h.own) < wire.MaxListening {
			h.own[a] = true
		}
	}
}

// Put stores a value of the process.
func (h *handler) Put(ctx context.Context, scope, key string, value []byte) error {
	p, err := h.enter(ctx)
	if err != nil {
		return err
	}
	h.remember(key, value, true)
	return p.store.Put(p.assignment.Rank, scope, key, value)
}

// Get waits for a value.
func (h *handler) Get(ctx context.Context, scope, key string) ([]byte, bool, error) {
	p, err := h.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	value, found, err := p.store.Get(ctx, p.assignment.Rank, scope, key)
	if err == nil && found {
		h.remember(key, value, false)
	}
	return value, found, err
}

// Delete records that the process leaves a mesh. A surrogate never leaves the last one.
func (h *handler) Delete(ctx context.Context, scope, key string) error {
	p, err := h.enter(ctx)
	if err != nil {
		return err
	}
	if err := p.store.Delete(p.assignment.Rank, scope, key); err != nil {
		return err
	}
	if h.surrogate && p.store.Up(p.assignment.Rank) {
		return rendezvous.ErrHold
	}
	return nil
}

// RankAndSize answers a process that has left its ring. It waits until the process has a
// place in the next one.
func (h *handler) RankAndSize(ctx context.Context) (rendezvous.Assignment, error) {
	h.mu.Lock()
	if h.present != nil && h.present.used {
		h.left, h.rank = h.present.generation, h.present.assignment.Rank
		h.present = nil
		go h.events.Waiting(h.left)
	}
	h.mu.Unlock()
	p, err := h.await(ctx, func(p *placement) bool { return p.generation > h.left })
	if err != nil {
		return rendezvous.Assignment{}, err
	}
	return rendezvous.Assignment(p.assignment), nil
}

// WorkerAddress records the address of the process's notification service. It is called
// once per process.
func (h *handler) WorkerAddress(_ context.Context, t rendezvous.NotifyTarget) error {
	h.mu.Lock()
	if h.present != nil {
		h.present.store.Initialized(h.present.assignment.Rank)
	}
	h.target = t
	h.mu.Unlock()
	h.events.Notifiable()
	return nil
}

// retire makes a process exit while it waits for its next place. It waits in C++, which no
// Python exception reaches, so it gets a place in a ring of its own, where it exits before
// it trains.
func (h *handler) retire(ctx context.Context, hostname string) error {
	h.mu.Lock()
	target, rank, left := h.target, h.rank, h.left
	h.mu.Unlock()
	if target.Port == 0 {
		return errors.New("it does not listen for notices")
	}
	if err := target.Retire(ctx, rank); err != nil {
		return err
	}
	store, err := rendezvous.NewStore(rendezvous.Members{Slots: []rendezvous.Slot{{Host: hostname, Assignment: rendezvous.Alone}}, Local: []int{0}})
	if err != nil {
		return err
	}
	h.admit(&placement{generation: left + 1, assignment: elastic.Assignment(rendezvous.Alone), store: store})
	return nil
}

// notifyTarget returns the address at which the process is notified.
func (h *handler) notifyTarget() rendezvous.NotifyTarget {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.target
}
