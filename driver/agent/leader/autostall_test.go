// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// watchedBy is a leader with stall_timeout = "auto" whose ring has made many steps of 0.2 s.
// Its hosts a, b and c answer that their processes do what doing says, unless it is empty.
type watchedBy struct {
	*ledBy
	doing  map[elastic.HostID]stall.Activity
	step   float64
	events []string
}

func watchedRing(t *testing.T) *watchedBy {
	t.Helper()
	w := &watchedBy{ledBy: lead(t, config.Config{Training: settings.Training{StallTimeout: settings.Auto}}, "a", "b", "c"),
		doing: map[elastic.HostID]stall.Activity{"a": stall.Idle, "b": stall.Idle, "c": stall.Idle}}
	w.steps(stall.Enough, 0.2)
	return w
}

func (w *watchedBy) steps(n int, slowest float64) {
	w.step += float64(n)
	w.report("a", wire.Progress{Step: value(w.step), At: w.step, FirstAt: 1, Made: n, Slowest: slowest})
}

// breaks reports whether the leader breaks the ring within a time without a step, in which it
// looks at the ring twice a second.
func (w *watchedBy) breaks(within time.Duration) bool {
	w.t.Helper()
	w.sent()
	begin := time.Now()
	for since := time.Duration(0); since <= within; since += 500 * time.Millisecond {
		w.checkStall(w.t.Context(), begin.Add(since))
		broken := false
		for id, messages := range w.sent() {
			for _, m := range messages {
				switch {
				case m.Watch != nil && w.doing[id] != "":
					mem := w.machine.Ring().Find(elastic.SlotID{Host: id})
					w.receive(w.t.Context(), id, &wire.ToLeader{Watched: &wire.Watched{Ring: m.Watch.Ring, Number: m.Watch.Number,
						Activities: []wire.Activity{{Proc: mem.Proc, Activity: string(w.doing[id])}}}})
				case m.Event != nil && id == "a":
					w.events = append(w.events, m.Event.Text)
				case m.Break != nil:
					broken = true
				}
			}
		}
		if broken {
			return true
		}
	}
	return false
}

func (w *watchedBy) says(id elastic.HostID, reason string) {
	mem := w.machine.Ring().Find(elastic.SlotID{Host: id})
	w.receive(w.t.Context(), id, &wire.ToLeader{Slow: &wire.Slow{Proc: mem.Proc, Generation: w.ring.Generation, Reason: reason}})
}

const within, patience = stall.Floor + 3*time.Second, 10*time.Minute + lookPause + 5*time.Second

func TestAutoFindsTheProcessThatIsStopped(t *testing.T) {
	t.Parallel()
	w := watchedRing(t)
	w.doing["b"] = stall.Stopped
	must.False(t, w.breaks(stall.StoppedFloor-500*time.Millisecond))
	must.True(t, w.breaks(stall.StoppedFloor+time.Second))
	must.Len(t, 1, w.events)
	must.StrContains(t, w.events[0], "the step after step 20 of ring 1 takes 2.")
	must.StrContains(t, w.events[0], ` s, the median of the last 20 was 0.20 s (stall_timeout = "auto"); the cause is rank 1 (host b, slot 0), stopped by a signal: the ring forms again without it`)

	var stopped []elastic.Proc
	b := w.machine.Ring().Members[1].Proc
	a := w.machine.Ring().Members[0].Proc
	w.receive(t.Context(), "a", &wire.ToLeader{Waiting: &elastic.SlotWaiting{Proc: a, Generation: 1}})
	for _, messages := range w.sent() {
		for _, m := range messages {
			if m.Stop != nil {
				stopped = append(stopped, m.Stop.Proc)
			}
		}
	}
	must.Eq(t, []elastic.Proc{b}, stopped, must.Sprint("alone"))
}

func TestAutoGivesARingThatWorksMoreTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doing map[elastic.HostID]stall.Activity
		limit time.Duration
	}{
		"all wait":                   {nil, within},
		"rank 0 evaluates":           {map[elastic.HostID]stall.Activity{"a": stall.Busy}, patience},
		"rank 0 writes a checkpoint": {map[elastic.HostID]stall.Activity{"a": stall.Disk}, patience},
		"an agent is older":          {map[elastic.HostID]stall.Activity{"c": ""}, patience},
	} {
		w := watchedRing(t)
		for id, doing := range c.doing {
			w.doing[id] = doing
		}
		if c.limit == patience {
			must.False(t, w.breaks(patience-lookPause-10*time.Second), must.Sprint(name))
		}
		must.True(t, w.breaks(c.limit), must.Sprint(name))
	}
}

func TestAutoKnowsNoLimitBeforeEnoughSteps(t *testing.T) {
	t.Parallel()
	w := &watchedBy{ledBy: lead(t, config.Config{Training: settings.Training{StallTimeout: settings.Auto}}, "a"),
		doing: map[elastic.HostID]stall.Activity{"a": stall.Stopped}}
	must.False(t, w.breaks(time.Hour), must.Sprint("the script may never report"))
	w.steps(stall.Enough-1, 0.2)
	must.False(t, w.breaks(time.Hour), must.Sprint("too few"))
	must.Len(t, 1, w.events, must.Sprint("it is only reported"))
	w.steps(1, 0)
	w.steps(1, 0.2)
	must.True(t, w.breaks(within))
}

func TestAutoCountsStepsWithoutNumbers(t *testing.T) {
	t.Parallel()
	w := &watchedBy{ledBy: lead(t, config.Config{Training: settings.Training{StallTimeout: settings.Auto}}, "a"),
		doing: map[elastic.HostID]stall.Activity{"a": stall.Stopped}}
	w.report("a", wire.Progress{SteppedAt: 1, Made: stall.Enough, Slowest: 0.3})
	must.True(t, w.breaks(within))
	must.StrContains(t, w.events[0], "a step of ring 1 takes")
}

func TestAutoAsksForMoreInAYoungRing(t *testing.T) {
	t.Parallel()
	w := watchedRing(t)
	w.reform()
	must.False(t, w.breaks(stall.Young-time.Second))
	must.True(t, w.breaks(stall.Young+3*time.Second))
	w.reform()
	w.doing["b"] = stall.Stopped
	must.True(t, w.breaks(stall.StoppedFloor+time.Second), must.Sprint("a process that is stopped does not compile"))
}

// A process that is stopped after the first look is found by the look that all rings get.
func TestAutoFindsAProcessThatIsStoppedLater(t *testing.T) {
	t.Parallel()
	w := watchedRing(t)
	w.doing["a"] = stall.Busy
	must.False(t, w.breaks(stall.Floor-elastic.IdleTime-time.Second))
	looks := w.auto.last
	must.EqOp(t, 1, looks)
	w.doing["b"] = stall.Stopped
	begin := time.Now()
	w.checkStall(t.Context(), begin.Add(stall.Floor-elastic.IdleTime-500*time.Millisecond))
	must.EqOp(t, looks, w.auto.last, must.Sprint("one early look"))
	must.True(t, w.breaks(within))
	must.StrContains(t, w.events[0], "the cause is rank 1 (host b, slot 0), stopped by a signal")
}

// A host that does not answer the early look does not delay the look that all rings get.
func TestAutoLooksInTimeAlthoughAHostDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := watchedRing(t)
	w.doing["c"] = ""
	must.False(t, w.breaks(stall.Floor-elastic.IdleTime-time.Second))
	w.doing["c"] = stall.Idle
	must.True(t, w.breaks(stall.Floor+500*time.Millisecond))
}

func TestAutoWaitsForAStepThatIsSlowOnPurpose(t *testing.T) {
	t.Parallel()
	w := watchedRing(t)
	w.doing["b"] = stall.Stopped
	w.says("c", "evaluation\nof \x1b[31mall")
	must.False(t, w.breaks(slowLimit-time.Second))
	must.Len(t, 1, w.events)
	must.StrContains(t, w.events[0], "ring 1 has made no step for 6")
	must.StrContains(t, w.events[0], ", rank 2 (host c, slot 0) (stall)")
	must.False(t, strings.ContainsAny(w.events[0], "\n\x1b"), must.Sprint("text of a tenant"))

	w.says("c", "") // over; from now on the limit counts
	must.False(t, w.breaks(stall.StoppedFloor-500*time.Millisecond))
	w.steps(1, 900)
	must.True(t, w.breaks(within), must.Sprint("a step that was slow on purpose does not count"))
}

func TestAutoDoesNotWaitForeverForASlowStep(t *testing.T) {
	t.Parallel()
	w := watchedRing(t)
	w.doing["b"] = stall.Stopped
	w.says("c", "evaluation")
	w.says("c", "and another")
	must.True(t, w.breaks(slowLimit+within))
}

func TestAFixedStallTimeoutCountsInASlowStepToo(t *testing.T) {
	t.Parallel()
	w := &watchedBy{ledBy: lead(t, config.Config{Training: settings.Training{StallTimeout: settings.Duration(time.Minute)}}, "a")}
	w.steps(30, 0.2)
	w.says("a", "evaluation")
	must.False(t, w.breaks(59*time.Second))
	must.True(t, w.breaks(62*time.Second))
}

// A leader that was stopped itself has not received the reports that were sent meanwhile.
func TestAutoDoesNotCountTimeInWhichTheLeaderIsStopped(t *testing.T) {
	t.Parallel()
	var a autoStall
	now := time.Now()
	stepped := now
	a.ticked(now, &stepped)
	a.ticked(now.Add(time.Second), &stepped)
	must.Eq(t, now, stepped)
	a.ticked(now.Add(time.Minute), &stepped)
	must.Eq(t, now.Add(59*time.Second), stepped)
}

// Each ring that is broken without a known cause doubles the limit at least.
func TestAutoLearnsFromAPauseThatRecurs(t *testing.T) {
	t.Parallel()
	w := watchedRing(t)
	const pause = 30 * time.Second
	broken := 0
	for range 10 {
		if w.breaks(pause) {
			broken++
			w.reform()
		}
		w.steps(stall.Enough+1, 0.2)
	}
	must.Between(t, 1, broken, 3)
}
