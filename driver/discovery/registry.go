// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Registry tells who the peers of a job are. Its reads must be linearizable: a
// read that is sent after a change was recorded shows it.
type Registry interface {
	// Watch sends a view whenever the registry changed, was confirmed or failed
	// to answer, the latest one only. It ends, and closes the channel, with ctx.
	Watch(ctx context.Context) <-chan View
	// Read asks the registry now.
	Read(ctx context.Context) View
}

// Static is a registry that its user fills: for agents without Nomad, and for
// tests. Use NewStatic.
type Static struct {
	mu      sync.Mutex
	peers   map[string]Peer
	index   uint64
	changed chan struct{} // closed at the next change
}

// NewStatic returns a registry of the given peers.
func NewStatic(peers ...Peer) *Static {
	s := &Static{peers: make(map[string]Peer), changed: make(chan struct{})}
	for _, p := range peers {
		s.Add(p)
	}
	return s
}

// Add registers the peer, anew if it is there already.
func (s *Static) Add(p Peer) {
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

// Read returns the peers as they are.
func (s *Static) Read(context.Context) View {
	v, _ := s.read()
	return v
}

func (s *Static) read() (View, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := View{At: time.Now(), Index: s.index}
	for _, p := range s.peers {
		v.Peers = append(v.Peers, p)
	}
	sortPeers(v.Peers)
	return v, s.changed
}

// Watch sends the peers now and at each change.
func (s *Static) Watch(ctx context.Context) <-chan View {
	out := make(chan View, 1)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			v, changed := s.read()
			sendLatest(out, v)
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// sendLatest puts v in the channel of size 1 in place of one not yet taken. The
// caller is the only sender.
func sendLatest[T any](out chan T, v T) {
	select {
	case <-out:
	default:
	}
	out <- v
}

func sortPeers(ps []Peer) {
	slices.SortFunc(ps, func(a, b Peer) int { return strings.Compare(a.AllocID, b.AllocID) })
}
