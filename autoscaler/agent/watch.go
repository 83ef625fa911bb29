// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import "time"

// Watch returns a channel of events; stop ends it. A slow reader misses some.
func (a *Agent) Watch() (events <-chan Event, stop func()) {
	c := make(chan Event, 64)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers[c] = struct{}{}
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watchers, c)
	}
}

func (a *Agent) event(e Event) {
	e.Time = time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.watchers {
		select {
		case c <- e:
		default:
		}
	}
}
