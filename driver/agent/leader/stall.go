// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// checkStall warns of a ring that no longer makes steps, and breaks it after
// StallTimeout. The likely cause is a process that hangs, while the others wait for it in
// a collective; the framework's own check does not notice every case. Once the script is
// known to report steps, a ring that makes no first step counts, too. Time is measured by
// this machine's clock, because the hosts' clocks may differ.
func (l *Leader) checkStall(ctx context.Context, now time.Time) {
	if !l.stats.reports || !l.machine.Up() || l.machine.Ending() || !l.hearsAll() {
		l.stepped = now
		return
	}
	quiet := now.Sub(l.stepped).Seconds()
	limit := time.Duration(l.o.Config.StallTimeout).Seconds()
	warn := max(60, 30*l.stats.stepSeconds()[l.stats.size].Mean)
	if limit > 0 {
		warn = min(warn, limit/2)
	}
	generation := l.ring.Generation
	if quiet > warn && l.stallReported != generation {
		l.stallReported = generation
		l.broadcast(&wire.ToAgent{Event: &elastic.TaskEvent{Text: fmt.Sprintf(
			"ring %d has made no step for %.0f s: a process may hang, while the others wait for it in a collective (stall)", generation, quiet)}})
	}
	if limit > 0 && quiet > limit {
		l.broadcast(&wire.ToAgent{Event: &elastic.TaskEvent{Text: fmt.Sprintf(
			"ring %d has made no step for %.0f s (stall_timeout): it is broken and formed again without processes that hang", generation, quiet)}})
		l.stats.fail()
		l.stats.leave(now)
		l.breakRing(elastic.Break{Generation: generation})
		l.step(ctx, elastic.Stalled{Generation: generation})
	}
}

// hearsAll reports whether every host of the ring is in session. A host without a session
// may be making steps that the leader does not know of.
func (l *Leader) hearsAll() bool {
	for _, id := range l.machine.Ring().Hosts() {
		if m := l.hosts[id]; m == nil || m.session == nil {
			return false
		}
	}
	return true
}
