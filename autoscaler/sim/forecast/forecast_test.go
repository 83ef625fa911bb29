// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package forecast_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/queued"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim/forecast"
)

const now = 1.8e9 // Unix time, as in a live cluster

func parse(t *testing.T, name string) policy.Policy {
	t.Helper()
	p, err := builtin.Policies.Parse(name)
	must.NoError(t, err)
	return p
}

// running returns a job that has held n slots for 1000 s. Its steps take a second.
func running(id string, n int, remaining float64) policy.Job {
	j := waiting(id, n)
	j.Submit, j.FirstStart, j.LastChange = now-1000, now-1000, now-1000
	j.Count, j.RunTime, j.Attained, j.Done, j.Remaining = n, 1000, 1000*float64(n), 1000, remaining
	j.Curve = speedup.NewCurve(speedup.Point{Size: n, StepTime: 1, Samples: 1000})
	return j
}

// waiting returns a job of n slots that arrived a minute ago.
func waiting(id string, n int) policy.Job {
	return policy.Job{ID: id, Namespace: "default", Weight: 1, Submit: now - 60, Min: n, Max: n, Preferred: n, PerWorker: 1}
}

// pool returns the question about a pool of so many slots.
func pool(t *testing.T, policyName string, slots int, jobs ...policy.Job) *forecast.Question {
	return &forecast.Question{
		Snapshot: &policy.Snapshot{Now: now, Seed: 1, Nodes: []policy.Node{{ID: "n", GPUs: slots}}, Jobs: jobs, Changed: true},
		Policy:   parse(t, policyName),
		Lengths:  make([]forecast.Length, len(jobs)),
	}
}

func starts(t *testing.T, q *forecast.Question) []forecast.Start {
	t.Helper()
	out, err := forecast.Starts(t.Context(), q)
	must.NoError(t, err)
	again, err := forecast.Starts(t.Context(), q)
	must.NoError(t, err)
	must.Eq(t, out, again)
	return out
}

// With declared lengths, the start is known to the second.
func TestStarts_Declared(t *testing.T) {
	next := waiting("next", 4)
	next.Remaining, next.Curve = 50, speedup.NewCurve(speedup.Point{Size: 4, StepTime: 1, Samples: 9}) // it was suspended
	got := starts(t, pool(t, "fifo", 8, running("a", 4, 300), running("b", 4, 500), next, waiting("last", 8)))
	must.Len(t, 2, got)
	must.Eq(t, "next", got[0].Job)
	for at, of := range map[float64]float64{got[0].Earliest: 300, got[0].Latest: 300, got[1].Earliest: 500, got[1].Latest: 500} {
		must.InDelta(t, now+of, at, 0.01)
	}
}

// The jobs of a snapshot may be in any order, not only in that of their arrival.
func TestStarts_AnyOrder(t *testing.T) {
	got := starts(t, pool(t, "fifo", 4, waiting("a-next", 4), running("b", 4, 300)))
	must.InDelta(t, now+300, got[0].Earliest, 0.01)
}

// Lengths of the kind lead to a range. The job's own age makes it narrower, because the job
// is not one of the short ones.
func TestStarts_ByKind(t *testing.T) {
	q := pool(t, "fifo", 4, running("a", 4, 0), waiting("next", 4))
	work := q.Snapshot.Jobs[0].Curve.Time(1)
	q.Lengths[0].Kind = []float64{100 * work, 200 * work, 1400 * work, 1500 * work, 1600 * work}
	got := starts(t, q)[0]
	must.Greater(t, now+50, got.Earliest)
	must.Less(t, now+600, got.Earliest)
	must.Between(t, now+200, got.Middle, now+1000)
	must.Greater(t, now+600, got.Latest)
	must.Less(t, now+5000, got.Latest)
}

// Without any knowledge of lengths, there is only a lower bound, or nothing.
func TestStarts_Unknown(t *testing.T) {
	for name, c := range map[string]struct {
		jobs []policy.Job
		want func(forecast.Start)
	}{
		"unknown": {[]policy.Job{running("a", 4, 0), waiting("next", 4)}, func(s forecast.Start) {
			must.Eq(t, 0, s.Latest)
			must.Greater(t, now, s.Earliest)
			must.Less(t, now+1000, s.Earliest)
		}},
		"never served": {[]policy.Job{running("a", 4, 100), waiting("next", 9)}, func(s forecast.Start) {
			must.Eq(t, forecast.Start{Job: "next"}, s)
		}},
		"starts now": {[]policy.Job{running("a", 2, 100), waiting("next", 2)}, func(s forecast.Start) {
			must.Eq(t, forecast.Start{Job: "next", Earliest: now, Middle: now, Latest: now}, s)
		}},
	} {
		t.Run(name, func(t *testing.T) { c.want(starts(t, pool(t, "fifo", 4, c.jobs...))[0]) })
	}
	must.Eq(t, []forecast.Start{{Job: "next"}}, starts(t, pool(t, "fifo", 0, waiting("next", 4))))
	must.SliceEmpty(t, starts(t, pool(t, "fifo", 4, running("a", 4, 0))))
}

// Simulated arrivals overtake the waiting job if the policy lets them.
func TestStarts_Arrivals(t *testing.T) {
	q := pool(t, "srjf", 4, running("a", 4, 300), waiting("next", 4))
	q.Snapshot.Jobs[1].Remaining = 10000
	q.Lengths[1].Kind = []float64{40000, 40000, 40000}
	alone := starts(t, q)[0]
	must.InDelta(t, now+300, alone.Latest, 0.01)
	for i := range 20 {
		j := running(fmt.Sprint("short", i), 4, 100)
		j.Submit = now - 4000 + 200*float64(i)
		q.Arrivals = append(q.Arrivals, forecast.Arrival{Job: j})
	}
	overtaken := starts(t, q)[0]
	must.Greater(t, alone.Latest+100, overtaken.Latest)
}

// Simulated arrivals have as much time until their deadline as the jobs that they copy.
func TestStarts_Deadlines(t *testing.T) {
	q := pool(t, "fifo", 4, running("a", 4, 3000), waiting("next", 4))
	for i := range 20 {
		j := running(fmt.Sprint("due", i), 4, 100)
		j.Submit = now - 4000 + 200*float64(i)
		j.Deadline = j.Submit + 500
		q.Arrivals = append(q.Arrivals, forecast.Arrival{Job: j})
	}
	seen := &deadlines{Policy: q.Policy}
	q.Policy = seen
	starts(t, q)
	must.SliceNotEmpty(t, seen.of)
	for _, d := range seen.of {
		must.InDelta(t, 500, d, 1e-3)
	}
}

// deadlines notes how much time the jobs have that arrive in simulations.
type deadlines struct {
	policy.Policy
	of []float64
}

func (p *deadlines) Allocate(s *policy.Snapshot) policy.Decision {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Submit > now {
			p.of = append(p.of, j.Deadline-j.Submit)
		}
	}
	return p.Policy.Allocate(s)
}

// The pool's queues count: a queue below its guarantee gets the next slots.
func TestStarts_Queues(t *testing.T) {
	tree, problems := queue.New([]queue.Queue{{Name: "a", Namespaces: []string{"a"}, Guarantee: 4, Weight: queue.WeightUnit}, {Name: "b", Namespaces: []string{"b"}, Guarantee: 4, Weight: queue.WeightUnit}})
	must.SliceEmpty(t, problems)
	first, second := running("first", 4, 300), running("second", 4, 500)
	third, fourth := waiting("third", 4), waiting("fourth", 4)
	for j, q := range map[*policy.Job]string{&first: "a", &second: "b", &third: "b", &fourth: "a"} {
		j.Namespace, j.Queue = q, q
	}
	q := pool(t, "fifo", 8, first, second, third, fourth)
	q.Policy = queued.New(tree, q.Policy, nil)
	got := starts(t, q)
	must.InDelta(t, now+500, got[0].Earliest, 0.01)
	must.InDelta(t, now+300, got[1].Earliest, 0.01)
}

// The past of queues counts as well: if a queue's budget is spent, its job is not expected
// to start with the slots that become free next.
func TestStarts_Budgets(t *testing.T) {
	budget := &queue.Budget{SlotHours: 10, Per: queue.Month, Stop: true}
	tree, problems := queue.New([]queue.Queue{{Name: "a", Weight: queue.WeightUnit}, {Name: "b", Weight: queue.WeightUnit, Budget: budget}})
	must.SliceEmpty(t, problems)
	first, second := running("first", 4, 300), waiting("second", 4)
	first.Queue, second.Queue = "a", "b"
	for spent, want := range map[float64]bool{0: true, 11: false} {
		q := pool(t, "fifo", 4, first, second)
		q.Policy = queued.New(tree, q.Policy, nil)
		q.Snapshot.Past = map[string]queue.Past{queue.Key("b"): {Spent: spent}}
		got := starts(t, q)
		must.Eq(t, want, math.Abs(got[0].Earliest-now-300) < 1 && got[0].Latest > 0, must.Sprintf("%+v", got))
	}
}

// A pool that is too large, a policy that fails and a context that ends are errors.
func TestStarts_Errors(t *testing.T) {
	q := pool(t, "fifo", 4, running("a", 4, 300), waiting("next", 4))
	q.Policy = broken{}
	_, err := forecast.Starts(t.Context(), q)
	must.ErrorContains(t, err, "policy broken panicked in a forecast: oh no")

	var jobs []policy.Job
	for i := range forecast.MaxJobs + 1 {
		jobs = append(jobs, waiting(strconv.Itoa(i), 1))
	}
	_, err = forecast.Starts(t.Context(), pool(t, "fifo", 4, jobs...))
	must.ErrorIs(t, err, forecast.ErrTooMany)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = forecast.Starts(ctx, pool(t, "fifo", 4, running("a", 4, 300), waiting("next", 4)))
	must.ErrorIs(t, err, context.Canceled)
}

type broken struct{}

func (broken) Name() string                              { return "broken" }
func (broken) Allocate(*policy.Snapshot) policy.Decision { panic("oh no") }

// The work is bounded: a start beyond the bound is "not before" that time.
func TestStarts_BoundedWork(t *testing.T) {
	jobs := []policy.Job{running("a", 4, 300)}
	for i := range forecast.MaxJobs - 1 {
		jobs = append(jobs, waiting(fmt.Sprintf("w%04d", i), 4))
	}
	q := pool(t, "fifo", 4, jobs...)
	counting := &counter{Policy: q.Policy}
	q.Policy = counting
	for i := range q.Lengths {
		q.Lengths[i].Kind = []float64{1000, 1000, 1000}
	}
	out, err := forecast.Starts(t.Context(), q)
	must.NoError(t, err)
	must.Greater(t, out[0].Earliest-1, out[0].Latest)
	last := out[len(out)-1]
	must.Eq(t, 0, last.Latest)
	must.Greater(t, now+300, last.Earliest)
	must.LessEq(t, 4_200_000, counting.work)
}

type counter struct {
	policy.Policy
	work int
}

func (c *counter) Allocate(s *policy.Snapshot) policy.Decision {
	c.work += len(s.Jobs)
	return c.Policy.Allocate(s)
}

// The memory of a forecast is bounded, whatever sizes jobs ask for.
func TestStarts_BoundedMemory(t *testing.T) {
	var jobs []policy.Job
	for i := range 200 {
		j := waiting(fmt.Sprintf("w%03d", i), 1)
		j.Max = 100_000
		jobs = append(jobs, j)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := forecast.Starts(t.Context(), pool(t, "fifo", 100_000, jobs...))
	must.NoError(t, err)
	runtime.ReadMemStats(&after)
	must.Less(t, 8<<30, after.TotalAlloc-before.TotalAlloc) // of all 20 simulations together; it was 88 GB
}

// Any numbers that a job reports are accepted without an error, and change no snapshot.
func TestStarts_AnyReports(t *testing.T) {
	for _, x := range []float64{0, 5e-324, 1e-9, 1, 1e12, 1e300} {
		a, b := running("a", 4, x), waiting("next", 4)
		a.Done, a.RunTime, b.Remaining = x, x, x
		a.Curve = speedup.NewCurve(speedup.Point{Size: 4, StepTime: max(1e-9, x)})
		q := pool(t, "kolo", 4, a, b)
		q.Lengths[1].Kind = []float64{x, x, x}
		must.Len(t, 1, starts(t, q))
		must.Eq(t, a, q.Snapshot.Jobs[0])
	}
}
