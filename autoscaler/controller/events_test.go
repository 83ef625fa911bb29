// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// A round publishes many events. A reader with room in its buffer gets all of them, and one
// without does not delay the round.
func TestController_ManyEventsAtOnce(t *testing.T) {
	c := &Controller{subscribers: map[chan api.Event]struct{}{}}
	few, stopFew := c.Subscribe()
	defer stopFew()
	all, stopAll := c.SubscribeBuffered(1000)
	defer stopAll()
	for range 1000 {
		c.publish(api.Event{Type: "complete"})
	}
	must.Eq(t, 64, len(few))
	must.Eq(t, 1000, len(all))
}
