// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// allocationsOf waits for the allocations of a job that runs with two workers.
func allocationsOf(t *testing.T, a *Controller, key identity.JobKey) []api.JobAllocation {
	t.Helper()
	var out []api.JobAllocation
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		out = a.JobDetail(key).Allocations
		return len(out) == 2
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	return out
}

// A straggler is shown as soon as the training reports it, and there is one event after five
// minutes, also if the ring changes meanwhile.
func TestController_Straggler(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.steady())
	w.job("x", 2, 2)
	w.job("other", 2, 2)
	key := identity.JobKey{Namespace: "default", ID: "x"}
	allocs := allocationsOf(t, a, key)
	others := allocationsOf(t, a, identity.JobKey{Namespace: "default", ID: "other"})
	becomes(t, a, "x", func(j *api.JobStatus) bool { return j.Running == 2 })
	began := time.Now()

	a.mu.Lock()
	defer a.mu.Unlock() // so that no round sees the times of this test
	j := a.job(key)
	alive := &planner.Job{Key: key, Groups: a.view.Jobs[indexOf(a, key)].Groups}
	hear := func(after time.Duration, alloc string, rank int) *api.Straggler {
		var got *history.Straggler
		if alloc != "" {
			got = &history.Straggler{Rank: rank, AllocID: alloc, Share: 0.92, Behind: 0.14}
		}
		a.hearStraggler(j, key, got, began.Add(after))
		a.reportStraggler(alive, began.Add(after))
		return j.stragglerNow()
	}
	events := func() (out []api.Event) {
		for _, e := range a.events {
			if e.Type == "straggler" {
				out = append(out, e)
			}
		}
		return out
	}
	must.Nil(t, hear(0, others[0].ID, 0), must.Sprint("the worker of another job"))
	must.Nil(t, hear(0, "unknown", 0))
	must.Eq(t, &api.Straggler{Rank: 1, AllocID: allocs[0].ID, Node: allocs[0].Node, Share: 0.92, Behind: 0.14, Since: began}, hear(0, allocs[0].ID, 1))
	for after := time.Second; after < stragglerAfter; after += 30 * time.Second {
		must.NotNil(t, hear(after, allocs[0].ID, 1))
		must.Nil(t, hear(after+time.Second, "", 0), must.Sprint("a new ring"))
	}
	must.SliceEmpty(t, events())
	must.NotNil(t, hear(stragglerAfter, allocs[0].ID, 0))
	must.NotNil(t, hear(stragglerAfter+time.Second, allocs[0].ID, 0))
	must.Len(t, 1, events())
	must.Eq(t, "rank 0 on node "+allocs[0].Node+" comes last in 92 % of steps, 140 ms after the median", events()[0].Reason)

	later := 2 * stragglerAfter
	must.Eq(t, began.Add(later), hear(later, allocs[1].ID, 1).Since, must.Sprint("another rank"))
	must.Eq(t, began.Add(2*later), hear(2*later, allocs[1].ID, 1).Since, must.Sprint("after a time without one"))
	must.Len(t, 1, events())
	alive.Groups = nil
	must.Nil(t, hear(2*later+time.Second, allocs[1].ID, 1), must.Sprint("the job has no workers"))
}

func indexOf(a *Controller, key identity.JobKey) int {
	for i := range a.view.Jobs {
		if a.view.Jobs[i].Key == key {
			return i
		}
	}
	return -1
}

// The straggler that a training reports is in the status of its job. Impossible reports are
// refused.
func TestProbe_Straggler(t *testing.T) {
	var report atomic.Value
	report.Store("null")
	s := newAnswering(t, func(rw http.ResponseWriter, r *http.Request) {
		saying(fmt.Sprintf(`{"job":"victim","namespace":"default","step":7,"straggler":%s}`, report.Load()))(rw, r)
	})
	_, a := probed(t, func(j *nomadtest.Job) { j.At = []string{s.at} })
	alloc := allocationsOf(t, a, identity.JobKey{Namespace: "default", ID: "victim"})[1]
	becomes(t, a, "victim", func(j *api.JobStatus) bool { return j.Step == 7 && j.Straggler == nil })
	report.Store(fmt.Sprintf(`{"rank":1,"alloc_id":%q,"share":0.9,"behind_seconds":0.2}`, alloc.ID))
	becomes(t, a, "victim", func(j *api.JobStatus) bool { return j.Straggler != nil && j.Straggler.Node == alloc.Node })
	report.Store("null")
	becomes(t, a, "victim", func(j *api.JobStatus) bool { return j.Straggler == nil })
	report.Store(`null,"stall":{"generation":1,"size":2,"seconds":61,"time":100,"stacks":{"groups":[{"ranks":"1","count":1,"suspect":true,"state":"sl\u001beeping"}]}}`)
	key := identity.JobKey{Namespace: "default", ID: "victim"}
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		got := a.JobDetail(key).Training
		return got != nil && got.Stall != nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	stall := a.JobDetail(key).Training.Stall
	must.Eq(t, time.Unix(100, 0).UTC(), stall.Time)
	must.Eq(t, "sl\ufffdeeping", string(stall.Stacks.Groups[0].State))
	for _, text := range []string{`null,"stall":{"size":-1}`, `null,"stall":{"seconds":1e300}`, `null,"stall":{"time":1e15}`, `{"rank":-1}`, `{"share":2}`, `{"behind_seconds":1e300}`, `{"behind_seconds":-1}`, `{"rank":"x"}`} {
		report.Store(text)
		asked(t, s, 3)
		must.Nil(t, victim(a).Straggler, must.Sprint(text))
	}
}
