// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"sync"
)

// Shared is a registry whose watchers share one watch of another. Use Share.
type Shared struct {
	Registry
	mu      sync.Mutex
	last    *View
	over    bool
	changed chan struct{} // closed at the next view
}

// Share watches the registry until ctx ends; then it ends all watches of the
// one it returns.
func Share(ctx context.Context, r Registry) *Shared {
	s := &Shared{Registry: r, changed: make(chan struct{})}
	views := r.Watch(ctx)
	go func() {
		for v := range views {
			s.set(&v)
		}
		s.set(nil)
	}()
	return s
}

// set takes in the newest view, or nil when there will be none.
func (s *Shared) set(v *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v != nil {
		s.last = v
	}
	s.over = v == nil
	close(s.changed)
	s.changed = make(chan struct{})
}

// Watch sends the newest view, once there is one, and each that follows.
func (s *Shared) Watch(ctx context.Context) <-chan View {
	out := make(chan View, 1)
	go func() {
		defer close(out)
		for {
			s.mu.Lock()
			last, over, changed := s.last, s.over, s.changed
			s.mu.Unlock()
			if over {
				return
			}
			if last != nil {
				sendLatest(out, *last)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
