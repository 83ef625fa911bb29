// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"maps"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// eventuallyExpected waits until the expected start of a job that waits is as wanted.
func (w *world) eventuallyExpected(a *Controller, id string, want func(*api.Waits) bool) *api.Waits {
	w.t.Helper()
	var got *api.Waits
	must.Wait(w.t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		if j := statusOf(a.Status(), id); j != nil {
			got = j.Waits
		}
		return got != nil && want(got)
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	return got
}

// A waiting job has an expected start. It is only a lower bound while nothing is known of
// lengths, and a range once jobs of its kind have completed. It is absent once the job has
// started.
func TestController_ExpectedStart(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.forecastEvery = 20 * time.Millisecond
	a, _ := w.start(w.config())
	kind := func(id string) {
		w.nomad.Register(nomadtest.Job{ID: id, Max: 4, GPUs: 1, CPU: 100, Priority: 50,
			Elastic: map[string]any{"kolo": []any{map[string]any{"min": 4, "kind": "bert"}}}})
	}
	kind("runs")
	w.eventually(map[string]int{"runs": 4})
	kind("waits")
	bound := w.eventuallyExpected(a, "waits", func(got *api.Waits) bool { return got.Expected != nil })
	must.True(t, bound.Expected.Latest.IsZero())
	must.StrContains(t, bound.Expected.Unknown, "too little is known")

	a.mu.Lock()
	a.history.Kinds["default/bert"] = &history.Kind{Lengths: []float64{4000, 4400, 4800}, Used: time.Now()}
	a.mu.Unlock()
	known := w.eventuallyExpected(a, "waits", func(got *api.Waits) bool { return got.Expected != nil && !got.Expected.Latest.IsZero() }).Expected
	must.Eq(t, "", known.Unknown)
	must.True(t, known.Earliest.After(known.Made.Add(time.Minute)))
	must.True(t, known.Latest.After(known.Earliest))
	must.True(t, known.Latest.Before(known.Made.Add(24*time.Hour)))

	t.Log("a round keeps the forecast")
	before := a.Status().Time
	w.eventuallyExpected(a, "waits", func(got *api.Waits) bool { return a.Status().Time.After(before) && got.Expected != nil })

	t.Log("no forecast knows when a user ends a pause")
	must.NoError(t, a.SetPaused(t.Context(), "a test", statusOf(a.Status(), "waits").JobKey, true))
	w.eventuallyExpected(a, "waits", func(got *api.Waits) bool { return got.Reason == "paused" && got.Expected == nil })
}

// A job that misreports its length changes the forecasts of other jobs, but no decision.
func TestController_AJobLiesAboutItsLength(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.forecastEvery = 20 * time.Millisecond
	a, _ := w.start(w.config())
	w.job("liar", 4, 4)
	w.eventually(map[string]int{"liar": 4})
	w.job("waits", 4, 4)
	claim := func(total float64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		h := a.history.Jobs[identity.JobKey{Namespace: "default", ID: "liar"}]
		h.Total, h.Done = total, 10
		h.Measurements = []history.Measurement{{Point: speedup.Point{Size: 4, StepTime: 1, Samples: 100}, At: time.Now()}}
	}
	decided := func() map[identity.JobKey]planner.Want {
		after := time.Now()
		a.poke()
		w.eventuallyExpected(a, "waits", func(*api.Waits) bool { return a.Status().Time.After(after) })
		a.mu.Lock()
		defer a.mu.Unlock()
		return maps.Clone(a.policies["default"].wants)
	}
	in := func(least, most time.Duration) func(*api.Waits) bool {
		return func(got *api.Waits) bool {
			e := got.Expected
			return e != nil && e.Earliest.After(e.Made.Add(least)) && !e.Latest.IsZero() && e.Latest.Before(e.Made.Add(most))
		}
	}
	claim(2000)
	honest := w.eventuallyExpected(a, "waits", in(1900*time.Second, 2000*time.Second))
	before := decided()
	claim(20000)
	deceived := w.eventuallyExpected(a, "waits", in(19900*time.Second, 20000*time.Second))
	must.Eq(t, before, decided())
	must.Eq(t, 0, before[statusOf(a.Status(), "waits").JobKey].Count)
	must.Eq(t, honest.Reason, deceived.Reason)
	must.Eq(t, honest.Sentence, deceived.Sentence)
	must.Eq(t, honest.Position, deceived.Position)
	must.Eq(t, 0, statusOf(a.Status(), "liar").Resizes)
}

// expectedUnder returns the forecast for a job that waits in a pool with an external policy,
// which does as elastic-fifo.
func expectedUnder(t *testing.T, name string, wrap func(policy.Policy) policy.Policy) *api.Expected {
	t.Helper()
	w := newWorld(t, 1, 4)
	w.forecastEvery = 20 * time.Millisecond
	c := w.config()
	pool := c.Pools["default"]
	pool.Policy = name
	c.Pools["default"] = pool
	inner, err := builtin.Policies.Parse("elastic-fifo")
	must.NoError(t, err)
	a, _ := w.startWith(c, external{wrap(inner)})
	w.job("runs", 4, 4)
	w.eventually(map[string]int{"runs": 4})
	w.job("waits", 4, 4)
	return w.eventuallyExpected(a, "waits", func(got *api.Waits) bool { return got.Expected != nil }).Expected
}

// External policies are not asked for forecasts.
func TestController_NoForecastOfExternalPolicies(t *testing.T) {
	got := expectedUnder(t, "slow", func(inner policy.Policy) policy.Policy { return outside{inner} })
	must.Eq(t, "the policy runs in a process of its own, which forecasts do not ask", got.Unknown)
	must.True(t, got.Earliest.IsZero())
}

// outside is a policy that may fail, but does not.
type outside struct{ policy.Policy }

func (p outside) TryAllocate(s *policy.Snapshot) (policy.Decision, error) { return p.Allocate(s), nil }

// A job that is run again was created in Nomad before other jobs, but arrived after them.
// The forecast must not fail because of that.
func TestController_ForecastOfAJobThatIsRunAgain(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.forecastEvery = 20 * time.Millisecond
	a, _ := w.start(w.config())
	w.job("again", 1, 1)
	w.eventually(map[string]int{"again": 1})
	must.True(t, w.nomad.Complete("again"))
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return statusOf(a.Status(), "again").State == api.StateComplete }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.job("runs", 4, 4)
	w.eventually(map[string]int{"runs": 4})
	w.job("again", 1, 1)
	got := w.eventuallyExpected(a, "again", func(got *api.Waits) bool { return got.Expected != nil }).Expected
	must.StrContains(t, got.Unknown, "too little is known")
}

// A simulated arrival has as much time until its deadline as the job that it copies had, and the
// lengths of similar jobs apply to it as to waiting jobs.
func TestController_ForecastArrivals(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	for _, id := range []string{"runs", "waits"} {
		w.nomad.Register(nomadtest.Job{ID: id, Max: 4, GPUs: 1, CPU: 100, Priority: 50,
			Elastic: map[string]any{"kolo": []any{map[string]any{"min": 4, "kind": "bert", "deadline": "2h"}}}})
	}
	w.eventuallyExpected(a, "waits", func(*api.Waits) bool { return true })
	a.mu.Lock()
	a.history.Kinds["default/bert"] = &history.Kind{Services: []float64{4000, 4400, 4800}, Used: time.Now()}
	a.mu.Unlock()
	pools := a.toForecast()
	must.Len(t, 1, pools)
	must.SliceNotEmpty(t, pools[0].question.Arrivals)
	for _, arrived := range pools[0].question.Arrivals {
		must.InDelta(t, 2*3600, arrived.Job.Deadline-arrived.Job.Submit, 600)
		must.Eq(t, length.NewSample(length.Kind, []float64{4000, 4400, 4800}), arrived.Job.Alike)
	}
}

// The error of a forecast may name jobs that a caller may not read, so the status does not have it.
func TestController_ForecastFails(t *testing.T) {
	got := expectedUnder(t, "moody", func(inner policy.Policy) policy.Policy { return moody{inner} })
	must.Eq(t, "the forecast failed; the log of the autoscaler has the error", got.Unknown)
}

// moody is a policy that fails in forecasts only: their snapshots have a context.
type moody struct{ policy.Policy }

func (p moody) Allocate(s *policy.Snapshot) policy.Decision {
	if s.Context != nil {
		panic("no idea what to do with secret/job")
	}
	return p.Policy.Allocate(s)
}

// A kind learns how long its jobs are when they complete.
func TestController_LearnsLengths(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	w.nomad.Register(nomadtest.Job{ID: "first", Max: 4, GPUs: 1, CPU: 100, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"min": 4, "kind": "bert"}}}})
	w.eventually(map[string]int{"first": 4})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return statusOf(a.Status(), "first").Attained > 0 }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	must.True(t, w.nomad.Complete("first"))
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.history.Lengths("default/bert")) == 1
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}
