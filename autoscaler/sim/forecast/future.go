// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package forecast

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// spread is the standard deviation of the logarithm of two random factors of each future:
// one for all lengths that are not declared, and one for the rate of arrivals. A common
// factor is needed because the errors of lengths are correlated: all jobs of a day may be
// longer than those of the week before. The same is true of gaps between arrivals. The
// value was tuned on workloads 1 and 2 of docs/benchmarks.md.
const spread = 0.6

// arriving is the first byte of the ID of a drawn job. No ID in Nomad begins with it.
const arriving = '\x00'

// future draws possible futures of a pool.
type future struct {
	q       *Question
	nodes   []trace.Node
	most    int // slots of the pool
	curves  map[string]*trace.Curve
	gaps    []float64 // between arrivals
	span    float64   // seconds in which these were
	present int       // jobs
	guessed int       // lengths of present jobs, over all futures so far
	lengths int       // the same, of any
}

func newFuture(q *Question) *future {
	f := &future{q: q, most: slots(q.Snapshot), curves: map[string]*trace.Curve{}, present: len(q.Snapshot.Jobs)}
	for i := range q.Snapshot.Nodes {
		if n := &q.Snapshot.Nodes[i]; n.GPUs > 0 {
			f.nodes = append(f.nodes, trace.Node{ID: strconv.Itoa(i), Type: n.Type, GPUs: n.GPUs})
		}
	}
	for i := range q.Arrivals {
		next := q.Snapshot.Now
		if i+1 < len(q.Arrivals) {
			next = q.Arrivals[i+1].Job.Submit
		}
		f.gaps = append(f.gaps, max(0, next-q.Arrivals[i].Job.Submit))
		f.span += f.gaps[i]
	}
	return f
}

// guesses reports whether most lengths of present jobs were drawn without any knowledge
// of them.
func (f *future) guesses() bool { return 2*f.guessed > f.lengths }

// config draws a future, and returns the configuration of its simulation.
func (f *future) config(rng *rand.Rand) sim.Config {
	s := f.q.Snapshot
	p := &sim.Present{Now: s.Now, State: s.State, Changed: s.Changed, Past: s.Past}
	t := &trace.Trace{}
	longer, busier := math.Exp(spread*rng.NormFloat64()), math.Exp(spread*rng.NormFloat64())
	add := func(j policy.Job, l Length, arrives float64) {
		j.Preferred, j.Done = min(max(j.Preferred, j.Min), j.Max), within(j.Done)
		work, guessed := l.draw(&j, rng)
		if !declared(&j) {
			work *= longer
		}
		f.lengths++
		if guessed {
			f.guessed++
		}
		t.Jobs = append(t.Jobs, f.job(&j, work, arrives))
		p.Jobs = append(p.Jobs, j)
	}
	for i := range s.Jobs {
		add(s.Jobs[i], f.q.Lengths[i], s.Now) // they keep their order, which need not be that of Submit
	}
	lengths, guessed := f.lengths, f.guessed
	f.arrive(rng, busier, add)
	f.lengths, f.guessed = lengths, guessed
	return sim.Config{
		Trace: t, Nodes: f.nodes, Present: p, Info: sim.Info{Curves: true}, Placement: sim.CountOnly,
		Resize: sim.ResizeCost{Constant: s.ResizeCost}, Seed: s.Seed,
	}
}

// arrive draws the jobs that arrive: copies of recent jobs, with the gaps between recent
// arrivals. They arrive for a time as long as the one in which the recent jobs arrived.
func (f *future) arrive(rng *rand.Rand, busier float64, add func(j policy.Job, l Length, arrives float64)) {
	if f.span <= 0 {
		return
	}
	now := f.q.Snapshot.Now
	for at, n := now, 0; n < 2*f.present+len(f.gaps); n++ {
		if at += f.gaps[rng.IntN(len(f.gaps))] / busier; at > now+f.span {
			return
		}
		a := &f.q.Arrivals[rng.IntN(len(f.q.Arrivals))]
		j := a.Job
		if j.Deadline > 0 {
			j.Deadline += at - j.Submit
		}
		j.ID, j.Submit = string(arriving)+strconv.Itoa(n), at
		j.Count, j.Done, j.Attained, j.RunTime, j.FirstStart, j.LastChange, j.Resizes, j.Held = 0, 0, 0, 0, 0, 0, 0, ""
		add(j, a.Length, at)
	}
}

// job returns a job of the simulation with the given arrival and work, in seconds and seconds
// on one worker.
func (f *future) job(j *policy.Job, work, arrives float64) trace.Job {
	least := min(j.Min, f.most) // one with more never starts
	most := max(least, min(j.Max, f.most))
	out := trace.Job{
		ID: j.ID, Tenant: j.Tenant, Type: j.Type, Weight: j.Weight, Priority: j.Priority, Submit: arrives,
		Min: least, Max: most, Preferred: min(max(j.Preferred, least), most), Sizes: j.Sizes, PerWorker: min(j.PerWorker, f.most+1), Preemptible: j.Preemptible,
	}
	one := j.Curve.Time(1)
	if j.Remaining > 0 && !j.Curve.Measured() {
		one = max(1e-3, within(work)) / max(1e-3, within(j.Remaining))
	}
	out.Steps, out.Curve = j.Done+max(1e-3, within(work/one)), f.curve(j, one)
	return out
}

// bound limits work and steps, so that sums of reported values stay finite.
const bound = 1e12

func within(x float64) float64 { return max(0, min(x, bound)) }

// sizes limits the number of sizes for which step times are tabulated, over all present jobs.
// Beyond these sizes, more workers gain nothing.
const sizes = 1 << 20

// curve returns the step times of a job whose step on one worker takes one seconds.
func (f *future) curve(j *policy.Job, one float64) *trace.Curve {
	if known := f.curves[j.ID]; known != nil {
		return known
	}
	times := make([]float64, max(1, min(j.Max, f.most/max(1, j.PerWorker), sizes/f.present)))
	for i := range times {
		times[i] = one / j.Curve.Speedup(i+1)
	}
	out, _ := trace.NewCurve(times) // all are above 0
	if j.Curve.Measured() && j.ID[0] != arriving {
		f.curves[j.ID] = out
	}
	return out
}
