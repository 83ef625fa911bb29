// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// training counts steps as the driver does: over the whole training.
type training struct {
	steps, seconds, samples map[int]float64
}

func newTraining() *training {
	return &training{map[int]float64{}, map[int]float64{}, map[int]float64{}}
}

// run makes steps of so many seconds at a size, and each of so many samples.
func (tr *training) run(size int, steps, step, samples float64) {
	tr.steps[size] += steps
	tr.seconds[size] += steps * step
	tr.samples[size] += steps * samples
}

func (tr *training) progress(size int) *cluster.Progress {
	p := &cluster.Progress{Size: size, StepSeconds: map[string]cluster.StepTime{}}
	for n, steps := range tr.steps {
		p.StepSeconds[strconv.Itoa(n)] = cluster.StepTime{Mean: tr.seconds[n] / steps, N: int(steps), Samples: tr.samples[n] / steps}
		p.Samples += tr.samples[n]
	}
	return p
}

// hear has the record ask every ten seconds.
func hear(r *Record, tr *training, size int, from time.Time, step float64, d time.Duration) time.Time {
	end := from.Add(d)
	for now := from; now.Before(end); now = now.Add(10 * time.Second) {
		tr.run(size, 10/step, step, 0)
		r.learn(tr.progress(size), 1, now)
	}
	return end
}

func timeOf(t *testing.T, r *Record, size int) float64 {
	t.Helper()
	c := policy.NewCurve(r.points()...)
	must.True(t, c.Known(size))
	return c.Time(size)
}

func TestMeasured_FollowsATrainingThatGetsSlower(t *testing.T) {
	for _, step := range []float64{0.01, 1, 5} {
		r, tr := &Record{}, newTraining()
		now := hear(r, tr, 4, t0, step, 8*time.Hour)
		must.InDelta(t, step, timeOf(t, r, 4), step/1000)
		hear(r, tr, 4, now, 2*step, 40*time.Minute)
		must.InDelta(t, 2*step, timeOf(t, r, 4), 0.1*step, must.Sprintf("steps of %v s", step))
	}
}

func TestMeasured_OneSlowStepChangesLittle(t *testing.T) {
	r, tr := &Record{}, newTraining()
	now := hear(r, tr, 4, t0, 0.1, time.Hour)
	tr.run(4, 10, 1, 0)
	r.learn(tr.progress(4), 1, now)
	must.InDelta(t, 0.1, timeOf(t, r, 4), 0.003)
}

// Step times that waver are no event: policies would plan anew all the time.
func TestMeasured_WaveringTimesAreNoNews(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r, tr, news := &Record{}, newTraining(), map[float64]bool{}
	for i := range 24 * 360 {
		tr.run(4, 20, 0.5*(1+rng.NormFloat64()/20), 0)
		r.learn(tr.progress(4), 1, t0.Add(time.Duration(i)*10*time.Second))
		news[r.Points[0].StepTime] = true
	}
	must.Less(t, 10, len(news))
	must.InDelta(t, 0.5, timeOf(t, r, 4), 0.02)
}

// A training that doubles its batch does twice as much in a step, which then
// takes twice as long: a step of the first batch takes as long as before.
func TestMeasured_OfALargerBatch(t *testing.T) {
	r, tr := &Record{}, newTraining()
	now := t0
	for range 100 {
		tr.run(2, 10, 1, 32)
		r.learn(tr.progress(2), 1, now)
		now = now.Add(10 * time.Second)
	}
	must.Eq(t, 32, r.Batch)
	must.InDelta(t, 1, timeOf(t, r, 2), 1e-6)
	for range 100 {
		tr.run(2, 5, 2, 64)
		r.learn(tr.progress(2), 1, now)
		now = now.Add(10 * time.Second)
		must.InDelta(t, 1, timeOf(t, r, 2), 1e-6)
	}
}

// The next agent knows what the last one made of the steps, and not what the
// training had said by then.
func TestMeasured_SurvivesTheAgent(t *testing.T) {
	r, tr := &Record{}, newTraining()
	now := hear(r, tr, 4, t0, 1, 8*time.Hour)
	now = hear(r, tr, 4, now, 2, time.Hour)
	text, err := json.Marshal(r)
	must.NoError(t, err)
	var next Record
	must.NoError(t, json.Unmarshal(text, &next))
	must.InDelta(t, 2, timeOf(t, &next, 4), 0.05)
	next.learn(tr.progress(4), 1, now)
	must.InDelta(t, 2, timeOf(t, &next, 4), 0.05)
	now = hear(&next, tr, 4, now, 2, 10*time.Minute)
	must.InDelta(t, 2, timeOf(t, &next, 4), 0.05)
	hear(&next, tr, 4, now, 3, time.Hour)
	must.InDelta(t, 3, timeOf(t, &next, 4), 0.05)
}

// A leader of the driver that lost its count begins with another.
func TestMeasured_OfATrainingThatCountsAnew(t *testing.T) {
	r := &Record{}
	now := hear(r, newTraining(), 4, t0, 1, time.Hour)
	hear(r, newTraining(), 4, now, 1.5, time.Hour)
	must.InDelta(t, 1.5, timeOf(t, r, 4), 0.04)
}

func TestMeasured_NotCounted(t *testing.T) {
	r := &Record{}
	for _, mean := range []float64{1, 2, 1.5} {
		r.learn(&cluster.Progress{Size: 3, StepSeconds: map[string]cluster.StepTime{"3": {Mean: mean}}}, 1, t0)
		must.Eq(t, mean, timeOf(t, r, 3))
	}
}

// aDay has a policy size one job on eight GPUs for a day. Its steps take as long
// as the function says. It returns the seconds trained at each size, and the
// number of resizes.
func aDay(t *testing.T, spec string, step func(size int, since time.Duration) float64) (at map[int]float64, resizes int) {
	t.Helper()
	p, err := policy.Parse(spec)
	must.NoError(t, err)
	r, tr, size, last := &Record{}, newTraining(), 1, ""
	var state []byte
	at = map[int]float64{}
	for now := t0; now.Before(t0.Add(24 * time.Hour)); now = now.Add(10 * time.Second) {
		took := step(size, now.Sub(t0))
		tr.run(size, 10/took, took, 0)
		at[size] += 10
		r.learn(tr.progress(size), 1, now)
		r.observe(&planner.Job{}, &cluster.Facts{Running: size, Slots: 1}, now, 10*time.Second)
		s := &policy.Snapshot{
			Now: seconds(now), State: state, ResizeCost: 0.3, Nodes: []policy.Node{{ID: "n", GPUs: 8, Free: 8 - size}},
			Jobs: []policy.Job{{ID: "a", Min: 1, Max: 8, Count: size, RunTime: r.RunTime, Attained: r.Attained, Curve: (*Kind)(nil).extend(r.points(), r.doubted())}},
		}
		sum := strconv.FormatUint(fingerprint(s), 16)
		s.Changed, last = sum != last, sum
		d := p.Allocate(s)
		state = d.State
		if n := d.Allocations[0].Count; n != size {
			size, resizes = n, resizes+1
		}
	}
	return at, resizes
}

// What once made a size slow may pass.
func TestMeasured_ASizeThatLookedFutileIsTriedAgain(t *testing.T) {
	for _, spec := range []string{"kolo", "weighted-fair", "ffdl", "afs-l"} {
		at, resizes := aDay(t, spec, func(size int, since time.Duration) float64 {
			if size > 4 && since < 5*time.Minute {
				return 2 // a bad node
			}
			return 1 / float64(size)
		})
		must.Greater(t, 20*3600.0, at[8], must.Sprintf("%s: %v", spec, at))
		must.Less(t, 30, resizes, must.Sprint(spec))
	}
}

// A training that does not scale is not bothered for it all day.
func TestMeasured_ASizeThatIsFutileIsSeldomTried(t *testing.T) {
	at, resizes := aDay(t, "kolo", func(size int, _ time.Duration) float64 {
		if size > 4 {
			return 0.5
		}
		return 1 / float64(size)
	})
	must.Greater(t, 23.5*3600, at[4], must.Sprint(at))
	must.Less(t, 40, resizes)
}

func TestKinds_WhatIsFutileIsDoubted(t *testing.T) {
	l := NewLedger()
	point := func(size int, step float64) policy.Point {
		return policy.Point{Size: size, StepTime: step, Samples: taughtSteps}
	}
	run := func(now time.Time) {
		l.teach("k", nil, []policy.Point{point(8, 1), point(4, 0.5), point(2, 0.8)}, now)
	}
	largest := func(now time.Time) int {
		l.Kinds["k"].doubt(now)
		c := l.Kinds["k"].extend(nil, nil)
		return c.Largest()
	}
	hours := func(h int) time.Time { return day(t0).Add(time.Duration(h) * time.Hour) }
	run(hours(1))
	must.Eq(t, 8, largest(hours(23)))
	must.Eq(t, 4, largest(hours(25)), must.Sprint("one run's word holds for a day"))
	run(hours(26))
	must.Eq(t, 8, largest(hours(24+47)), must.Sprint("that of two, for two"))
	must.Eq(t, 4, largest(hours(24+49)))

	run(hours(100))
	c := l.Kinds["k"].extend([]policy.Point{point(4, 0.5)}, []int{8})
	must.Eq(t, 4, c.Largest(), must.Sprint("what a job doubts it does not borrow"))
}
