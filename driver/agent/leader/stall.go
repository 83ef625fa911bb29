// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// checkStall warns of a ring that no longer makes steps, and breaks it after
// StallTimeout. The likely cause is a process that hangs, while the others wait for it in
// a collective; the framework's own check does not notice every case. Once the script is
// known to report steps, a ring that makes no first step counts, too. Time is measured by
// this machine's clock, because the hosts' clocks may differ.
func (l *Leader) checkStall(ctx context.Context, now time.Time) {
	if !l.stats.reports && !l.auto.sees || !l.machine.Up() || l.machine.Ending() || !l.hearsAll() {
		l.stepped, l.auto.look = now, nil
		return
	}
	quiet := now.Sub(l.stepped).Seconds()
	limit := time.Duration(l.o.Config.StallTimeout).Seconds()
	warn := max(60, 30*l.stats.stepSeconds()[l.stats.size].Mean)
	if limit > 0 {
		warn = min(warn, limit/2)
	}
	generation := l.ring.Generation
	if cause, reported := l.likely(now); quiet > warn && *reported != generation {
		*reported = generation
		l.broadcast(&wire.ToAgent{Event: &elastic.TaskEvent{Text: fmt.Sprintf(
			"ring %d has made no step for %.0f s: %s (stall)", generation, quiet, cause)}})
		if l.slowNow(now) == nil {
			l.noteStall(quiet)
		}
	}
	switch {
	case l.o.Config.StallTimeout == settings.Auto:
		l.checkAuto(ctx, now)
	case limit > 0 && quiet > limit && l.inspected(now):
		l.broadcast(&wire.ToAgent{Event: &elastic.TaskEvent{Text: fmt.Sprintf(
			"ring %d has made no step for %.0f s (stall_timeout): it is broken and formed again without processes that hang", generation, quiet)}})
		l.breakStalled(ctx, now, elastic.Stalled{Generation: generation})
	}
}

// noteStall records, for the status, that the ring has made no step for a time in seconds.
func (l *Leader) noteStall(quiet float64) {
	l.stall = &wire.Stall{Generation: l.ring.Generation, Size: len(l.machine.Ring().Members), Seconds: quiet, Time: wire.Seconds(time.Now())}
}

// breakStalled breaks a ring that makes no steps. The status keeps what its ranks did.
func (l *Leader) breakStalled(ctx context.Context, now time.Time, ev elastic.Stalled) {
	l.noteStall(now.Sub(l.stepped).Seconds())
	l.stall.Stacks, l.inspection = l.stacksTaken(), nil
	l.stats.fail()
	l.stats.leave(now)
	l.breakRing(elastic.Break{Generation: ev.Generation})
	l.step(ctx, ev)
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
