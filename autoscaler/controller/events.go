// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Watch returns a channel of events; stop ends it. A slow reader misses some.
func (a *Controller) Watch() (events <-chan api.Event, stop func()) {
	c := make(chan api.Event, 64)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers[c] = struct{}{}
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watchers, c)
	}
}

func (a *Controller) event(e api.Event) {
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

// jobEvent is an event of a job.
func jobEvent(typ string, key planner.JobKey) api.Event {
	return api.Event{Type: typ, Job: key.String(), Namespace: key.Namespace, ID: key.ID}
}
