// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ringsim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// Simulation is one generation: an endpoint for each slot, a store for each host,
// and a leader.
type Simulation struct {
	Slots []rendezvous.Slot
	// Requests counts the requests of the training processes, Messages the messages
	// between agents and leader, and Bytes the values in these messages.
	Requests, Messages, Bytes atomic.Int64

	collector *rendezvous.Collector
	hosts     map[string]*host
	endpoints []*rendezvous.Endpoint

	stop   context.CancelFunc
	agents sync.WaitGroup
	failed chan error
}

type host struct {
	name  string
	store *rendezvous.Store
}

// AnyPeer is a gate that admits every peer, since the simulated processes share a
// process with their agents.
type AnyPeer struct{}

// Admit returns nil.
func (AnyPeer) Admit(netip.AddrPort, netip.AddrPort) error { return nil }

// Start starts a generation with these slots and one agent for each host. The
// endpoints answer the peers that callers admits.
func Start(slots []rendezvous.Slot, callers gate.Callers) (*Simulation, error) {
	ctx, stop := context.WithCancel(context.Background())
	r := &Simulation{
		Slots:     slots,
		collector: rendezvous.NewCollector(),
		hosts:     map[string]*host{},
		stop:      stop,
		failed:    make(chan error, 1),
	}
	local := map[string][]int{}
	for _, s := range slots {
		local[s.Host] = append(local[s.Host], s.Rank)
	}
	for name, ranks := range local {
		store, err := rendezvous.NewStore(rendezvous.Members{Slots: slots, Local: ranks})
		if err != nil {
			stop()
			return nil, err
		}
		r.hosts[name] = &host{name: name, store: store}
	}
	for _, s := range slots {
		e, err := rendezvous.Listen(&process{store: r.hosts[s.Host].store, slot: s}, callers, hclog.NewNullLogger())
		if err != nil {
			r.Close()
			return nil, err
		}
		r.endpoints = append(r.endpoints, e)
	}
	for _, h := range r.hosts {
		r.agents.Go(func() { r.agent(ctx, h) })
	}
	return r, nil
}

// agent sends a host's values to the leader, and the leader's fills to the hosts.
func (r *Simulation) agent(ctx context.Context, h *host) {
	for {
		select {
		case <-h.store.News():
		case <-ctx.Done():
			return
		}
		puts := h.store.Outgoing()
		if len(puts) == 0 {
			continue
		}
		r.Messages.Add(1)
		for _, p := range puts {
			r.Bytes.Add(int64(len(p.Value)))
		}
		fills, err := r.collector.Submit(h.name, puts)
		if err == nil {
			err = r.deliver(fills)
		}
		if err != nil {
			select {
			case r.failed <- err:
			default:
			}
		}
	}
}

func (r *Simulation) deliver(fills []wire.Fill) error {
	for _, f := range fills {
		for name, h := range r.hosts {
			if f.Hosts != nil && !slices.Contains(f.Hosts, name) {
				continue
			}
			r.Messages.Add(1)
			for _, v := range f.Values {
				r.Bytes.Add(int64(len(v)))
			}
			if err := h.store.Fill(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// Client returns the HTTP client of a rank's process.
func (r *Simulation) Client(rank int) Client {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(r.endpoints[rank].Port()))
	return Client{Addr: addr, Requests: &r.Requests}
}

// Initialize runs one initialisation of all processes, and checks that all of them
// are up at its end.
func (r *Simulation) Initialize(ctx context.Context, set, seed string) error {
	if err := Initialize(ctx, r.Slots, set, seed, r.Client); err != nil {
		select {
		case cause := <-r.failed:
			return errors.Join(cause, err)
		default:
			return err
		}
	}
	for _, s := range r.Slots {
		if set != "" && !r.Store(s.Host).Up(s.Rank) {
			return fmt.Errorf("rank %d is not up", s.Rank)
		}
	}
	return nil
}

// Store returns a host's store.
func (r *Simulation) Store(host string) *rendezvous.Store { return r.hosts[host].store }

// Close ends the generation.
func (r *Simulation) Close() {
	r.stop()
	r.agents.Wait()
	for _, h := range r.hosts {
		h.store.Close()
	}
	for _, e := range r.endpoints {
		_ = e.Close()
	}
}

// process answers the requests of one slot's training process.
type process struct {
	store *rendezvous.Store
	slot  rendezvous.Slot
}

func (p *process) Put(_ context.Context, scope, key string, value []byte) error {
	return p.store.Put(p.slot.Rank, scope, key, value)
}

func (p *process) Get(ctx context.Context, scope, key string) ([]byte, bool, error) {
	return p.store.Get(ctx, p.slot.Rank, scope, key)
}

func (p *process) Delete(_ context.Context, scope, key string) error {
	return p.store.Delete(p.slot.Rank, scope, key)
}

func (p *process) RankAndSize(context.Context) (rendezvous.Assignment, error) {
	return p.slot.Assignment, nil
}

func (p *process) WorkerAddress(context.Context, rendezvous.NotifyTarget) error {
	p.store.Initialized(p.slot.Rank)
	return nil
}
