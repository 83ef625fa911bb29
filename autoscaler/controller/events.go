// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Subscribe returns a channel of events; stop ends the subscription. A slow reader misses
// events.
func (c *Controller) Subscribe() (events <-chan api.Event, stop func()) {
	return c.SubscribeBuffered(64)
}

// SubscribeBuffered does the same as Subscribe, for a reader that must not miss an event
// when one round publishes many. room is the number of events that the channel holds.
func (c *Controller) SubscribeBuffered(room int) (events <-chan api.Event, stop func()) {
	ch := make(chan api.Event, room)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers[ch] = struct{}{}
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, ch)
	}
}

// publish sends an event to the subscribers.
func (c *Controller) publish(e api.Event) {
	e.Time = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recent = append(c.recent, e)
	c.recent = slices.Delete(c.recent, 0, max(0, len(c.recent)-mostEvents))
	for ch := range c.subscribers {
		select {
		case ch <- e:
		default:
		}
	}
}

// jobEvent returns an event of a job.
func jobEvent(typ string, key identity.JobKey) api.Event {
	return api.Event{Type: typ, Job: key.String(), Namespace: key.Namespace, ID: key.ID}
}
