// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// hanging is a ring of hosts that answer an Inspect, and that has made no step since begin.
type hanging struct {
	*ledBy
	begin time.Time
}

func hangs(t *testing.T, timeout settings.Duration, hosts ...elastic.HostID) *hanging {
	t.Helper()
	h := &hanging{ledBy: lead(t, config.Config{Training: settings.Training{StallTimeout: timeout}}, hosts...)}
	for _, id := range hosts {
		h.hosts[id].inspects = true
	}
	h.report(hosts[0], wire.Progress{Step: value(1), At: 1, FirstAt: 1, Made: stall.Enough, Slowest: 0.2})
	h.sent()
	h.begin = h.stepped
	return h
}

// after checks the ring a time after its last step. It returns the hosts that were asked for
// stacks, with the request, and whether the ring was broken.
func (h *hanging) after(later time.Duration) (asked map[elastic.HostID]wire.Inspect, broken bool) {
	h.t.Helper()
	h.checkStall(h.t.Context(), h.begin.Add(later))
	asked = map[elastic.HostID]wire.Inspect{}
	for id, messages := range h.sent() {
		for _, m := range messages {
			if m.Inspect != nil {
				asked[id] = *m.Inspect
			}
			broken = broken || m.Break != nil
		}
	}
	return asked, broken
}

// answer sends the stacks of ranks, which call functions by these names.
func (h *hanging) answer(id elastic.HostID, to wire.Inspect, calls map[int]string) {
	m := &wire.Inspected{Ring: to.Ring, Number: to.Number}
	for rank, name := range calls {
		m.Ranks = append(m.Ranks, stacks.Rank{Rank: rank, Process: stacks.Process{State: stacks.Sleeping, Threads: []stacks.Thread{{Main: true, Frames: []stacks.Frame{{Function: name, File: "a.py", Line: 1}}}}}})
	}
	h.receive(h.t.Context(), id, &wire.ToLeader{Inspected: m})
}

// groups returns the ranks and the innermost function of each group of the last stall.
func (h *hanging) groups() (out []string) {
	h.publish()
	if h.status.Stall == nil || h.status.Stall.Stacks == nil {
		return nil
	}
	for _, g := range h.status.Stall.Stacks.Groups {
		out = append(out, g.Ranks+": "+g.Main().Frames[0].Function)
	}
	return out
}

// The leader takes the stacks before it breaks a ring, and the status keeps them, also under
// the next leader.
func TestStacksOfAStall(t *testing.T) {
	t.Parallel()
	h := hangs(t, settings.Duration(time.Minute), "a", "b", "c")
	asked, broken := h.after(59 * time.Second)
	must.MapEmpty(t, asked, must.Sprint("the ring may still be healthy"))
	must.False(t, broken)
	asked, broken = h.after(61 * time.Second)
	must.MapLen(t, 3, asked)
	must.False(t, broken)
	must.Eq(t, stacksTime.Seconds(), asked["a"].Within)

	h.answer("a", asked["a"], map[int]string{0: "all_reduce", 1: "forged", 7: "forged", -1: "forged"})
	h.answer("b", asked["b"], map[int]string{1: "load", 2: "forged"})
	again, broken := h.after(62 * time.Second)
	must.MapEmpty(t, again, must.Sprint("once"))
	must.False(t, broken)
	old := asked["c"]
	old.Number--
	h.answer("c", old, map[int]string{2: "forged"})
	h.answer("c", asked["c"], map[int]string{2: "all_reduce"})
	_, broken = h.after(62*time.Second + time.Millisecond)
	must.True(t, broken, must.Sprint("all have answered"))
	must.Eq(t, []string{"1: load", "0, 2: all_reduce"}, h.groups())
	must.True(t, h.status.Stall.Stacks.Groups[0].Suspect)
	must.Eq(t, "", h.status.Stall.Stacks.Silent)
	must.Eq(t, 3, h.status.Stall.Size)
	must.Between(t, 60, h.status.Stall.Seconds, 70)

	h.answer("a", asked["a"], map[int]string{0: "late"})
	must.Eq(t, []string{"1: load", "0, 2: all_reduce"}, h.groups())
}

// A host that does not answer delays the break by some seconds, and by no more time than the
// ring has been without a step. One of an earlier version does not delay it.
func TestStacksOfAStall_Silence(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{2 * time.Second, time.Minute} {
		h := hangs(t, settings.Duration(limit), "a", "b")
		quiet := limit + 100*time.Millisecond
		wait := min(stacksTime, quiet)
		asked, broken := h.after(quiet)
		must.MapLen(t, 2, asked)
		must.False(t, broken)
		must.Eq(t, wait.Seconds(), asked["b"].Within)
		h.answer("b", asked["b"], map[int]string{1: "load"})
		_, broken = h.after(quiet + wait - time.Millisecond)
		must.False(t, broken)
		_, broken = h.after(quiet + wait)
		must.True(t, broken)
		must.Eq(t, []string{"1: load"}, h.groups())
		must.Eq(t, "0", h.status.Stall.Stacks.Silent)
	}

	h := hangs(t, settings.Duration(time.Minute), "a", "b")
	h.hosts["a"].inspects, h.hosts["b"].inspects = false, false
	asked, broken := h.after(61 * time.Second)
	must.MapEmpty(t, asked)
	must.True(t, broken)
	must.Nil(t, h.status.Stall.Stacks)
}

// A step while the stacks are taken keeps the ring. The next stall asks again.
func TestStacksOfAStall_AStepMeanwhile(t *testing.T) {
	t.Parallel()
	h := hangs(t, settings.Duration(time.Minute), "a", "b")
	first, _ := h.after(61 * time.Second)
	h.answer("a", first["a"], map[int]string{0: "all_reduce"})
	h.stepped = h.begin.Add(62 * time.Second)
	_, broken := h.after(70 * time.Second)
	must.False(t, broken)
	second, broken := h.after(123 * time.Second)
	must.False(t, broken)
	must.MapLen(t, 2, second)
	h.answer("b", first["b"], map[int]string{1: "old"})
	h.answer("b", second["b"], map[int]string{1: "load"})
	h.answer("a", second["a"], nil)
	_, broken = h.after(124 * time.Second)
	must.True(t, broken)
	must.Eq(t, []string{"1: load"}, h.groups())
	must.Eq(t, "0", h.status.Stall.Stacks.Silent)
}

// With stall_timeout = "auto", the same time follows the limit. The verdict about the processes
// stays, and they are not watched again.
func TestStacksOfAStall_Auto(t *testing.T) {
	t.Parallel()
	for doing, limit := range map[stall.Activity]time.Duration{stall.Stopped: stall.StoppedFloor, stall.Idle: stall.Floor} {
		h := hangs(t, settings.Auto, "a", "b")
		var asked, broken time.Duration
		requests := 0
		for now := time.Duration(0); broken == 0 && now < time.Minute; now += 100 * time.Millisecond {
			h.checkStall(t.Context(), h.begin.Add(now))
			for id, messages := range h.sent() {
				for _, m := range messages {
					switch {
					case m.Watch != nil:
						must.Zero(t, asked)
						mem := h.machine.Ring().Find(elastic.SlotID{Host: id})
						h.receive(t.Context(), id, &wire.ToLeader{Watched: &wire.Watched{Ring: m.Watch.Ring, Number: m.Watch.Number,
							Activities: []wire.Activity{{Proc: mem.Proc, Activity: string(doing)}}}})
					case m.Inspect != nil:
						asked = now
						requests++
						if id == "a" {
							h.answer(id, *m.Inspect, map[int]string{0: "all_reduce"})
						}
					case m.Break != nil:
						broken = now
					}
				}
			}
		}
		must.Eq(t, 2, requests)
		must.Between(t, limit, asked, limit+elastic.IdleTime+lookGrace)
		must.Between(t, asked+min(stacksTime, asked), broken, asked+min(stacksTime, asked)+200*time.Millisecond)
		must.Eq(t, []string{"0: all_reduce"}, h.groups())
		must.Eq(t, "1", h.status.Stall.Stacks.Silent)
	}
}
