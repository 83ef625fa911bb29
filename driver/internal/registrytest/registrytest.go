// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package registrytest is a registry for tests.
package registrytest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

// Static is a registry whose content the test sets. Use NewStatic.
type Static struct {
	mu      sync.Mutex
	peers   map[string]registry.Peer
	index   uint64
	changed chan struct{} // closed at the next change
}

// NewStatic returns a registry with the given peers.
func NewStatic(peers ...registry.Peer) *Static {
	s := &Static{peers: make(map[string]registry.Peer), changed: make(chan struct{})}
	for _, p := range peers {
		s.Add(p)
	}
	return s
}

// Add registers the peer, or registers it again.
func (s *Static) Add(p registry.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	p.Registered = s.index
	s.peers[p.AllocID] = p
	s.wake()
}

// Remove drops the peer with the allocation ID.
func (s *Static) Remove(allocID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	delete(s.peers, allocID)
	s.wake()
}

func (s *Static) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Read returns the current peers.
func (s *Static) Read(context.Context) registry.View {
	v, _ := s.read()
	return v
}

func (s *Static) read() (registry.View, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := registry.View{At: time.Now(), Index: s.index}
	for _, p := range s.peers {
		v.Peers = append(v.Peers, p)
	}
	slices.SortFunc(v.Peers, func(a, b registry.Peer) int { return strings.Compare(a.AllocID, b.AllocID) })
	return v, s.changed
}

// Watch sends the peers now and at each change.
func (s *Static) Watch(ctx context.Context) <-chan registry.View {
	out := make(chan registry.View, 1)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			v, changed := s.read()
			select { // replace a view that was not received
			case <-out:
			default:
			}
			out <- v
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}()
	return out
}
