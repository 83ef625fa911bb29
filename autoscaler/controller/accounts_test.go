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
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// useOf returns what a status says of a queue.
func useOf(a *Controller, name string) api.QueueUse {
	for _, p := range a.Status().Pools {
		for _, u := range p.Use {
			if u.Queue == name {
				return u
			}
		}
	}
	return api.QueueUse{}
}

// until waits for a condition on a queue.
func until(t *testing.T, a *Controller, name string, holds func(api.QueueUse) bool) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		if u := useOf(a, name); !holds(u) {
			return fmt.Errorf("%+v, %+v", u, u.Budget)
		}
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// preemptibleIn registers an elastic job that may be suspended.
func (w *world) preemptibleIn(queue, id string, most int) {
	w.nomad.Register(nomadtest.Job{ID: id, Max: most, GPUs: 1, CPU: 100, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"min": 1, "queue": queue, "preemptible": true}}}})
}

// A job of a queue that has spent its budget is suspended. It waits with that reason until
// the budget is raised.
func TestController_BudgetIsSpent(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Pools = w.pools("queue \"a\" {\n guarantee = 4\n budget {\n  slot_hours = 0.001\n  beyond = \"stop\"\n }\n}\nqueue \"b\" { weight = 1 }")
	a, _ := w.start(c)
	w.preemptibleIn("a", "a1", 8)
	w.eventuallyReads(a, "a1", `budget: queue "a" has used 0.00`)
	w.eventually(map[string]int{"a1": 0})
	u := useOf(a, "a")
	must.GreaterEq(t, 0.001, u.Budget.Used)
	must.Eq(t, 0.001, u.Budget.SlotHours)
	must.Eq(t, []string{"month", "stop"}, []string{u.Budget.Per, u.Budget.Beyond})
	must.Eq(t, queue.Month.End(float64(a.Status().Time.Unix())), float64(u.Budget.Until.Unix()))
	for _, j := range a.Status().Jobs {
		must.Eq(t, "budget", string(j.Waits.Reason))
	}

	changed := *a.Config()
	changed.Pools = w.pools("queue \"a\" {\n budget {\n  slot_hours = 1000\n }\n}\nqueue \"b\" { weight = 1 }")
	must.NoError(t, a.Reload(&changed))
	w.eventually(map[string]int{"a1": 8})
}

// The usage of queues survives a leader, and the next one adds to it. Slots count at the
// cost of their device, and slots of a paused job count, too.
func TestController_AccountsOutliveALeader(t *testing.T) {
	w := newWorld(t, 2, 4)
	lines := "slot_cost = { \"stand-in*\" = 1000 }\nhalf_life = \"24h\"\nqueue \"a\" {\n budget {\n  slot_hours = 1000000\n }\n}\nqueue \"b\" { weight = 1 }"
	c := w.config()
	c.Pools = w.pools(lines)
	began := time.Now()
	first, stop := w.start(c)
	w.in("a", "a1", 1, 8)
	w.eventually(map[string]int{"a1": 8})
	until(t, first, "a", func(u api.QueueUse) bool { return u.Budget != nil && u.Budget.Used > 1 })
	must.Greater(t, 0.5, *useOf(first, "a").Decayed)
	stop()
	before := useOf(first, "a")

	c = w.config()
	c.Pools = w.pools(lines)
	second, _ := w.start(c)
	until(t, second, "a", func(u api.QueueUse) bool { return u.Budget != nil && u.Budget.Used > before.Budget.Used })
	until(t, second, "a", func(u api.QueueUse) bool { return second.Status().Leading })
	after, most := useOf(second, "a"), 8*1000*time.Since(began).Hours()
	must.Less(t, most, after.Budget.Used, must.Sprint("counted twice"))
	must.GreaterEq(t, *before.Decayed*0.99, *after.Decayed)
	must.Nil(t, useOf(second, "b").Budget)
}
