// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

// statusOf returns the status of a job, nil if it is not known yet.
func statusOf(s *api.Status, id string) *api.JobStatus {
	for i := range s.Jobs {
		if s.Jobs[i].ID == id {
			return &s.Jobs[i]
		}
	}
	return nil
}

// eventuallyWaits waits until a job waits for a reason at a position of a queue.
func (w *world) eventuallyWaits(a *Controller, id string, reason waiting.Reason, queue string, position, slots int) *api.Waits {
	w.t.Helper()
	var got *api.Waits
	must.Wait(w.t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		if j := statusOf(a.Status(), id); j != nil {
			got = j.Waits
		}
		if got == nil || got.Reason != reason || got.Queue != queue || got.Position != position || got.Slots != slots {
			return fmt.Errorf("job %s waits: %+v", id, got)
		}
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	return got
}

// The reason of the decision in force stays while later decisions repeat it, for a running
// job and for a waiting one, also in a divided pool.
func TestController_TheReasonInForceStays(t *testing.T) {
	for name, lines := range map[string]string{"undivided": "", "divided": `queue "a" { guarantee = 4 }`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 4)
			c := w.config()
			c.Planner.Tick = 20 * time.Millisecond
			c.Pools = w.pools(lines)
			pool := c.Pools["default"]
			pool.Policy = "kolo"
			c.Pools["default"] = pool
			a, _ := w.start(c)
			w.in("a", "runs", 4, 4)
			w.eventually(map[string]int{"runs": 4})
			w.nomad.Register(nomadtest.Job{ID: "waits", Max: 4, GPUs: 1, CPU: 100, Priority: 50,
				Elastic: map[string]any{"kolo": []any{map[string]any{"min": 4, "queue": "a", "preemptible": true}}}})
			var before *api.Status
			must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
				before = a.Status()
				runs, waits := statusOf(before, "runs"), statusOf(before, "waits")
				return runs.Running == 4 && waits != nil && waits.Waits != nil && waits.Waits.Reason == waiting.InQueue
			}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
			var after *api.Status
			must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
				after = a.Status()
				return after.Time.After(before.Time.Add(200 * time.Millisecond))
			}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
			must.StrNotContains(t, statusOf(after, "runs").Reason, "nothing changed")
			must.StrContains(t, statusOf(after, "waits").Waits.Sentence, "other jobs gain more from the GPUs for now")
			must.Eq(t, statusOf(before, "waits").Waits, statusOf(after, "waits").Waits)
		})
	}
}

// Waiting jobs are listed in order, by queue.
func TestController_Waits(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Pools = w.pools(`queue "a" {
  guarantee = 4
  limit     = 4
}
queue "b" { guarantee = 4 }`)
	a, _ := w.start(c)
	w.in("a", "a1", 4, 4)
	w.in("b", "b1", 4, 4)
	w.eventually(map[string]int{"a1": 4, "b1": 4})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return statusOf(a.Status(), "a1").Waits == nil }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.in("a", "a2", 2, 4)
	over := w.eventuallyWaits(a, "a2", waiting.OverLimit, "a", 1, 2)
	must.Eq(t, `its minimum is 2 slots, and the other jobs of queue "a" need more of its limit of 4 than it leaves`, over.Sentence)
	must.Eq(t, statusOf(a.Status(), "a2").Seen, over.Since)
	w.in("a", "a3", 5, 8)
	w.eventuallyWaits(a, "a3", waiting.OverLimit, "a", 2, 5)
	w.in("b", "b2", 1, 4)
	w.eventuallyWaits(a, "b2", waiting.NoRoom, "b", 1, 1)
	w.job("other", 3, 4)
	w.eventuallyWaits(a, "other", waiting.NoRoom, "*", 1, 3)

	t.Log("a paused job has no place")
	a2 := identity.JobKey{Namespace: "default", ID: "a2"}
	must.NoError(t, a.SetPaused(t.Context(), "a test", a2, true))
	must.Eq(t, "paused by a user", w.eventuallyWaits(a, "a2", waiting.Paused, "a", 0, 2).Sentence)
	w.eventuallyWaits(a, "a3", waiting.OverLimit, "a", 1, 5)
}

// A pool that is not divided has one line.
func TestController_WaitsInOnePot(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Pools["default"] = config.Pool{Name: "default", Policy: "elastic-fifo", Device: "gpu"}
	a, _ := w.start(c)
	w.job("first", 3, 3)
	w.job("paused", 5, 5)
	w.eventually(map[string]int{"first": 3, "paused": 5})
	must.NoError(t, a.SetPaused(t.Context(), "a test", identity.JobKey{Namespace: "default", ID: "paused"}, true))
	w.job("second", 4, 16)
	w.eventuallyWaits(a, "second", waiting.NoRoom, "*", 1, 4)
	w.in("mine", "third", 2, 4)
	w.eventuallyWaits(a, "third", waiting.InQueue, "*", 2, 2)
}

// A job that the nodes could never hold is refused with the missing number, and keeps no
// other job from starting. It starts once suitable nodes have joined.
func TestController_RefusesWhatNeverFits(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Pools["default"] = config.Pool{Name: "default", Policy: "fifo", Device: "gpu"}
	a, _ := w.start(c)
	w.job("never", 9, 9)
	got := w.eventuallyWaits(a, "never", waiting.NeverFits, "*", 0, 9)
	must.Eq(t, "its minimum is 9 slots, and the nodes that it may use would have room for 8 if they were empty: 1 too few", got.Sentence)
	w.job("behind", 4, 4)
	w.eventually(map[string]int{"behind": 4, "never": 0})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { // for who adds nodes
		lacks := statusOf(a.Status(), "never").Lacks
		return lacks != nil && lacks.Slots == 9
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))

	t.Log("a node that makes it possible joins")
	w.nomad.AddNodes(1, 4)
	w.eventuallyWaits(a, "never", waiting.InQueue, "*", 1, 9)
	w.nomad.AddNodes(1, 4)
	w.eventually(map[string]int{"behind": 4, "never": 9})
}
