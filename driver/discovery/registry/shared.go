// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"
	"sync"

	"github.com/kolo-nomad/kolo/driver/discovery/internal/latest"
)

// Shared is a registry whose watchers share one watch of another registry. Use
// Share.
type Shared struct {
	Registry
	mu      sync.Mutex
	last    View // zero before the first
	seen    bool
	over    bool
	changed chan struct{} // closed at the next view
}

// Share watches the registry until ctx ends. All watches of the Shared end with it.
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

// set stores the newest view; nil means that there will be no more.
func (s *Shared) set(v *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v != nil {
		s.last, s.seen = *v, true
	}
	s.over = v == nil
	close(s.changed)
	s.changed = make(chan struct{})
}

// Latest returns the newest view, or the zero View if there is none yet.
func (s *Shared) Latest() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Watch returns a channel of views: the newest view as soon as there is one, and
// each later view.
func (s *Shared) Watch(ctx context.Context) <-chan View {
	out := make(chan View, 1)
	go func() {
		defer close(out)
		for {
			s.mu.Lock()
			last, seen, over, changed := s.last, s.seen, s.over, s.changed
			s.mu.Unlock()
			if over {
				return
			}
			if seen {
				latest.Send(out, last)
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
