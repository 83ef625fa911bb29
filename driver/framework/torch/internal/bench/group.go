// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/framework/torch/tcpstore"
)

// simulation is one ring: a server for each rank, a store for each host, and a
// leader.
type simulation struct {
	ring     *elastic.Ring
	leader   *store.Sequencer
	deliver  sync.Mutex // keeps the leader's messages to a host in order
	replicas map[elastic.HostID]*store.Replica
	servers  []*tcpstore.Server
	requests atomic.Int64
	messages atomic.Int64
	bytes    atomic.Int64
	stop     context.CancelFunc
	agents   sync.WaitGroup
}

// anyPeer admits every peer: the simulated ranks share a process with their agents.
type anyPeer struct{}

func (anyPeer) Admit(netip.AddrPort, netip.AddrPort) error { return nil }

// process is a rank that already has its place.
type process struct{ client *store.Client }

func (p process) Store(context.Context) (tcpstore.Store, error) { return p.client, nil }

func start(ranks, perHost int) (*simulation, error) {
	ctx, stop := context.WithCancel(context.Background())
	s := &simulation{ring: &elastic.Ring{Generation: 1, Term: 1}, leader: store.NewSequencer(),
		replicas: map[elastic.HostID]*store.Replica{}, stop: stop}
	for rank := range ranks {
		slot := elastic.SlotID{Host: elastic.HostID("h" + strconv.Itoa(rank/perHost)), Local: rank % perHost}
		s.ring.Members = append(s.ring.Members, elastic.Member{Proc: elastic.Proc{Slot: slot, Incarnation: 1},
			Assignment: elastic.Assignment{Rank: rank, Size: ranks}})
	}
	for _, h := range s.ring.Hosts() {
		replica, err := store.NewReplica(h, s.ring)
		if err != nil {
			return nil, err
		}
		s.replicas[h] = replica
	}
	for _, m := range s.ring.Members {
		client := s.replicas[m.Proc.Slot.Host].Client(m.Assignment.Rank)
		server, err := tcpstore.Listen(process{client}, anyPeer{}, hclog.NewNullLogger())
		if err != nil {
			s.close()
			return nil, err
		}
		s.servers = append(s.servers, server)
	}
	if len(s.replicas) > 1 {
		for h, replica := range s.replicas {
			s.agents.Go(func() { s.agent(ctx, string(h), replica) })
		}
	}
	return s, nil
}

// agent sends a host's operations to the leader, and the leader's fills to the hosts.
func (s *simulation) agent(ctx context.Context, host string, replica *store.Replica) {
	for {
		select {
		case <-replica.News():
		case <-ctx.Done():
			return
		}
		puts := replica.Outgoing()
		if len(puts) == 0 {
			continue
		}
		s.count(1, puts, nil)
		s.deliver.Lock()
		fills, err := s.leader.Submit(host, puts)
		for _, f := range fills {
			for name, r := range s.replicas {
				if f.Hosts == nil || slices.Contains(f.Hosts, string(name)) {
					s.count(1, nil, f.Values)
					if err == nil {
						err = r.Fill(f)
					}
				}
			}
		}
		s.deliver.Unlock()
		if err != nil {
			panic(err) // a malformed message of this program's own
		}
	}
}

func (s *simulation) count(messages int64, puts []wire.Put, values map[string][]byte) {
	s.messages.Add(messages)
	for _, p := range puts {
		s.bytes.Add(int64(len(p.Value)))
	}
	for _, v := range values {
		s.bytes.Add(int64(len(v)))
	}
}

// form makes all ranks form one group.
func (s *simulation) form(ctx context.Context, w way) error {
	var ranks errgroup.Group
	for rank, server := range s.servers {
		ranks.Go(func() error {
			c, err := dial(ctx, server.Port())
			if err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			defer func() { s.requests.Add(c.sent) }()
			if err := c.meet(rank, len(s.servers), w); err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			return c.conn.Close()
		})
	}
	return ranks.Wait()
}

func (s *simulation) close() {
	s.stop()
	for _, server := range s.servers {
		_ = server.Close()
	}
	for _, r := range s.replicas {
		r.Close()
	}
	s.agents.Wait()
}
