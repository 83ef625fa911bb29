// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// slowLimit is how long a script's statement that its next step takes long holds off
// stall_timeout = "auto".
const slowLimit = time.Hour

// lookGrace is how long the leader waits for the answers of hosts, in addition to
// elastic.IdleTime.
const lookGrace = 2 * time.Second

// lookPause is the time between two looks at a ring that may be working. It exists because
// a look costs the hosts CPU time.
const lookPause = 10 * time.Second

// tickGap is the longest time between two ticks while the leader runs. In a longer gap, the
// leader itself was not running, and could not receive reports.
const tickGap = 2 * time.Second

// autoStall holds the leader's state for stall_timeout = "auto".
type autoStall struct {
	rule stall.Rule
	sees bool      // steps are reported, with numbers or without
	slow []slow    // processes whose next step takes long on purpose
	held bool      // there were some since the last step
	look *ringLook // nil unless hosts watch their processes
	last int       // number of the last look
	next time.Time // no look begins before this
	tick time.Time // of the last tick
	// glanced states that the leader has looked for a stopped process since the last step.
	glanced bool

	slowReported uint64 // generation of the ring whose slow step was reported
}

// slow is a script's statement that its next step takes long.
type slow struct {
	proc   elastic.Proc
	reason string
	since  time.Time
}

// ringLook collects what the hosts see of the processes of a ring that makes no steps.
type ringLook struct {
	began time.Time
	early bool                    // only a stopped process counts, because it is too early for others
	hosts map[elastic.HostID]bool // that have answered
	seen  map[elastic.Proc]stall.Activity
}

// isAuto reports whether the ring's own steps determine the limit of a step.
func (l *Leader) isAuto() bool { return l.o.Config.StallTimeout == settings.Auto }

// ticked is called at each tick. It excludes time in which the leader was not running.
func (a *autoStall) ticked(now time.Time, stepped *time.Time) {
	if gap := now.Sub(a.tick); !a.tick.IsZero() && gap > tickGap {
		*stepped = stepped.Add(gap)
	}
	a.tick = now
}

// formed is called when a new ring forms.
func (a *autoStall) formed() {
	a.rule.Formed()
	a.slow, a.held, a.look, a.next = nil, false, nil, time.Time{}
}

// countSteps handles new steps in a report.
func (l *Leader) countSteps(p *wire.Progress, now time.Time) {
	if !l.isAuto() || p.Generation != l.ring.Generation || p.Made <= 0 {
		return
	}
	l.stepped, l.auto.sees, l.auto.look, l.auto.next = now, true, nil, time.Time{}
	if !l.auto.held {
		l.auto.rule.Made(p.Made, time.Duration(p.Slowest*float64(time.Second)))
	}
	l.auto.held = len(l.auto.slow) > 0
	if limit, known := l.auto.rule.Limit(); known {
		l.log.Debug("steps", "made", p.Made, "slowest", p.Slowest, "limit", limit.After.Seconds())
	}
}

// slowed handles a script's statement that its next step takes long, or that this is over.
func (l *Leader) slowed(s *wire.Slow, now time.Time) {
	mem := l.machine.Ring().Find(s.Proc.Slot)
	if mem == nil || mem.Proc != s.Proc || s.Generation != l.ring.Generation {
		return
	}
	reason := plaintext.Line(s.Reason, plaintext.Limit)
	known := slices.IndexFunc(l.auto.slow, func(known slow) bool { return known.proc == s.Proc })
	switch {
	case reason == "":
		l.stopSlow(s.Proc, now)
	case known >= 0: // the time goes on
		l.auto.slow[known].reason = reason
	default:
		l.auto.slow = append(l.auto.slow, slow{s.Proc, reason, now})
		l.auto.held = true
	}
}

// stopSlow forgets that the next step of a process takes long. From now on, the limit of a
// step counts.
func (l *Leader) stopSlow(p elastic.Proc, now time.Time) {
	kept := slices.DeleteFunc(l.auto.slow, func(s slow) bool { return s.proc == p })
	if len(kept) < len(l.auto.slow) && l.isAuto() {
		l.stepped, l.auto.look = now, nil
	}
	l.auto.slow = kept
}

// slowNow returns the statement that holds off the limit of a step, or nil.
func (l *Leader) slowNow(now time.Time) *slow {
	for i := range l.auto.slow {
		if now.Sub(l.auto.slow[i].since) < slowLimit {
			return &l.auto.slow[i]
		}
	}
	return nil
}

// likely returns the likely cause of a stall, and a pointer to the generation of the ring
// whose stall of that kind was last reported.
func (l *Leader) likely(now time.Time) (cause string, reported *uint64) {
	if s := l.slowNow(now); s != nil {
		return fmt.Sprintf("the script states %q, %s", s.reason, l.placeOf(s.proc)), &l.auto.slowReported
	}
	return "a process may hang, while the others wait for it in a collective", &l.stallReported
}

// placeOf describes the place of a member of the ring.
func (l *Leader) placeOf(p elastic.Proc) string {
	mem := l.machine.Ring().Find(p.Slot)
	if mem == nil || mem.Proc != p {
		return "which is in no ring"
	}
	number := p.Slot.Local
	if h := l.hosts[p.Slot.Host]; h != nil {
		number = elastic.SlotNumber(number, h.width)
	}
	return fmt.Sprintf("rank %d (host %s, slot %d)", mem.Assignment.Rank, p.Slot.Host, number)
}

// checkAuto breaks a ring whose step takes too long compared with its earlier steps. Before
// that, it asks the hosts what the processes do. If one of them may be working, the ring
// gets commit_timeout. If a signal has stopped one of them, the ring gets less time.
func (l *Leader) checkAuto(ctx context.Context, now time.Time) {
	a := &l.auto
	limit, known := a.rule.Limit()
	stopped, _ := a.rule.StoppedLimit()
	quiet := now.Sub(l.stepped)
	due, glance := quiet >= limit.After-elastic.IdleTime, quiet >= stopped.After-wire.StoppedTime
	if !known || l.slowNow(now) != nil || !due && !glance {
		a.look, a.glanced = nil, false
		return
	}
	if a.look == nil || a.look.early && due && !l.inspecting() {
		if due && !now.Before(a.next) || !due && !a.glanced {
			l.lookAtRing(now, !due)
		}
		return
	}
	ring := l.machine.Ring()
	verdict := stall.Judge(l.activities())
	if quiet > stopped.After && verdict.Stopped {
		if l.inspected(now) {
			l.breakAuto(ctx, now, quiet, stopped, verdict)
		}
		return
	}
	complete := len(a.look.hosts) == len(ring.Hosts()) || now.Sub(a.look.began) >= elastic.IdleTime+lookGrace
	if !complete || a.look.early && verdict.Stopped || !a.look.early && quiet <= limit.After {
		return
	}
	switch {
	case a.look.early:
		a.look = nil
	case verdict.Patient && quiet <= max(limit.After, l.o.Config.CommitLimit()):
		a.look, a.next = nil, now.Add(lookPause)
	case l.inspected(now):
		l.breakAuto(ctx, now, quiet, limit, verdict)
	}
}

// lookAtRing asks the hosts of the ring what their processes do.
func (l *Leader) lookAtRing(now time.Time, early bool) {
	a := &l.auto
	a.last++
	a.glanced = true
	a.look = &ringLook{began: now, early: early, hosts: map[elastic.HostID]bool{}, seen: map[elastic.Proc]stall.Activity{}}
	sendTo(l, l.machine.Ring().Hosts(), &wire.ToAgent{Watch: &wire.Watch{Ring: l.ring, Number: a.last}})
}

// activities returns what the hosts have seen of the processes of the ring, by rank.
func (l *Leader) activities() []stall.Activity {
	ring := l.machine.Ring()
	ranks := make([]stall.Activity, len(ring.Members))
	for i, m := range ring.Members {
		ranks[i] = l.auto.look.seen[m.Proc]
	}
	return ranks
}

// watched handles a host's report about its processes.
func (l *Leader) watched(id elastic.HostID, w *wire.Watched) {
	look := l.auto.look
	if look == nil || w.Ring != l.ring || w.Number != l.auto.last {
		return
	}
	look.hosts[id] = true
	for _, seen := range w.Activities {
		if seen.Proc.Slot.Host == id {
			look.seen[seen.Proc] = stall.Activity(seen.Activity)
		}
	}
}

// breakAuto breaks a ring whose step exceeds its limit, and reports the step times that
// were compared.
func (l *Leader) breakAuto(ctx context.Context, now time.Time, quiet time.Duration, limit stall.Limit, verdict stall.Verdict) {
	l.auto.look = nil
	ring := l.machine.Ring()
	step := "a step"
	if s := l.stats.latest.Step; s != nil {
		step = fmt.Sprintf("the step after step %.0f", *s)
	}
	ev := elastic.Stalled{Generation: ring.Generation, Why: verdict.Why, Doubtful: true}
	var places []string
	for _, rank := range verdict.Causes {
		p := ring.Members[rank].Proc
		ev.Causes = append(ev.Causes, p)
		places = append(places, l.placeOf(p))
	}
	found := verdict.Why + ": the ring forms again without processes that do not leave it"
	if len(places) > 0 {
		found = fmt.Sprintf("the cause is %s, %s: the ring forms again without it", strings.Join(places, " and "), verdict.Why)
	} else {
		l.auto.rule.Broke(quiet)
	}
	l.broadcast(&wire.ToAgent{Event: &elastic.TaskEvent{Text: fmt.Sprintf(`%s of ring %d takes %s, %s (stall_timeout = "auto"); %s`,
		step, ring.Generation, stall.Seconds(quiet), limit.Compared, found)}})
	l.breakStalled(ctx, now, ev)
}
