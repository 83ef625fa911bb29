// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// training counts steps as the driver does: over the whole training.
type training struct {
	steps, seconds, samples map[int]float64
}

func newTraining() *training {
	return &training{map[int]float64{}, map[int]float64{}, map[int]float64{}}
}

// run makes steps that take step seconds and samples samples each.
func (tr *training) run(size int, steps, step, samples float64) {
	tr.steps[size] += steps
	tr.seconds[size] += steps * step
	tr.samples[size] += steps * samples
}

func (tr *training) progress(size int) *Progress {
	p := &Progress{Size: size, StepSeconds: map[string]StepTime{}}
	for n, steps := range tr.steps {
		p.StepSeconds[strconv.Itoa(n)] = StepTime{Mean: tr.seconds[n] / steps, N: int(steps), Samples: tr.samples[n] / steps}
		p.Samples += tr.samples[n]
	}
	return p
}

// report has the training report every ten seconds.
func report(r *Job, tr *training, size int, from time.Time, step float64, d time.Duration) time.Time {
	end := from.Add(d)
	for now := from; now.Before(end); now = now.Add(10 * time.Second) {
		tr.run(size, 10/step, step, 0)
		r.learn(tr.progress(size), 1, now)
	}
	return end
}

func timeOf(t *testing.T, r *Job, size int) float64 {
	t.Helper()
	c := speedup.NewCurve(r.Points()...)
	must.True(t, c.Known(size))
	return c.Time(size)
}

func TestMeasurement_FollowsATrainingThatGetsSlower(t *testing.T) {
	for _, step := range []float64{0.01, 1, 5} {
		r, tr := &Job{}, newTraining()
		now := report(r, tr, 4, t0, step, 8*time.Hour)
		must.InDelta(t, step, timeOf(t, r, 4), step/1000)
		report(r, tr, 4, now, 2*step, 40*time.Minute)
		must.InDelta(t, 2*step, timeOf(t, r, 4), 0.1*step, must.Sprintf("steps of %v s", step))
	}
}

func TestMeasurement_OneSlowStepChangesLittle(t *testing.T) {
	r, tr := &Job{}, newTraining()
	now := report(r, tr, 4, t0, 0.1, time.Hour)
	tr.run(4, 10, 1, 0)
	r.learn(tr.progress(4), 1, now)
	must.InDelta(t, 0.1, timeOf(t, r, 4), 0.003)
}

// Step times that fluctuate are not reported as changes, because policies would plan again
// each time.
func TestMeasurement_WaveringTimesAreNoNews(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r, tr, news := &Job{}, newTraining(), map[float64]bool{}
	for i := range 24 * 360 {
		tr.run(4, 20, 0.5*(1+rng.NormFloat64()/20), 0)
		r.learn(tr.progress(4), 1, t0.Add(time.Duration(i)*10*time.Second))
		news[r.Measurements[0].StepTime] = true
	}
	must.Less(t, 10, len(news))
	must.InDelta(t, 0.5, timeOf(t, r, 4), 0.02)
}

// A training that doubles its batch does twice as much in a step, which takes twice as
// long. The time of a step of the first batch stays the same.
func TestMeasurement_OfALargerBatch(t *testing.T) {
	r, tr := &Job{}, newTraining()
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

// The next autoscaler knows the time in force and the count of steps, but not the mean that
// the training had reported.
func TestMeasurement_SurvivesTheAgent(t *testing.T) {
	r, tr := &Job{}, newTraining()
	now := report(r, tr, 4, t0, 1, 8*time.Hour)
	now = report(r, tr, 4, now, 2, time.Hour)
	text, err := json.Marshal(r)
	must.NoError(t, err)
	var next Job
	must.NoError(t, json.Unmarshal(text, &next))
	must.InDelta(t, 2, timeOf(t, &next, 4), 0.05)
	next.learn(tr.progress(4), 1, now)
	must.InDelta(t, 2, timeOf(t, &next, 4), 0.05)
	now = report(&next, tr, 4, now, 2, 10*time.Minute)
	must.InDelta(t, 2, timeOf(t, &next, 4), 0.05)
	report(&next, tr, 4, now, 3, time.Hour)
	must.InDelta(t, 3, timeOf(t, &next, 4), 0.05)
}

// A history that an older build saved lacks the count of steps. Steps that were counted
// before are not counted again.
func TestMeasurement_WithoutItsCount(t *testing.T) {
	r, tr := &Job{}, newTraining()
	now := report(r, tr, 4, t0, 1, 8*time.Hour)
	now = report(r, tr, 4, now, 2, time.Hour)
	text, err := json.Marshal(r)
	must.NoError(t, err)
	var next Job
	must.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"counted"`, `"heard"`)), &next))
	must.Zero(t, next.Measurements[0].Counted)
	next.learn(tr.progress(4), 1, now)
	must.InDelta(t, 2, timeOf(t, &next, 4), 0.05)
	report(&next, tr, 4, now, 3, time.Hour)
	must.InDelta(t, 3, timeOf(t, &next, 4), 0.05)
}

// A leader of the driver that lost its count of steps begins a new one.
func TestMeasurement_OfATrainingThatCountsAnew(t *testing.T) {
	r := &Job{}
	now := report(r, newTraining(), 4, t0, 1, time.Hour)
	report(r, newTraining(), 4, now, 1.5, time.Hour)
	must.InDelta(t, 1.5, timeOf(t, r, 4), 0.04)
}

func TestMeasurement_NotCounted(t *testing.T) {
	r := &Job{}
	times := map[string]StepTime{}
	for i, mean := range []float64{1, 2, 1.5} {
		times["3"] = StepTime{Mean: mean}
		r.learn(&Progress{Size: 3, StepSeconds: times}, 1, t0.Add(time.Duration(i)*time.Second))
		must.Eq(t, mean, timeOf(t, r, 3))
	}
	for i := range 360 { // at another size for an hour
		times["2"] = StepTime{Mean: 1 + float64(i)/1e6}
		now := t0.Add(time.Duration(i) * 10 * time.Second)
		r.learn(&Progress{Size: 2, StepSeconds: times}, 1, now)
		r.expire(2, now)
	}
	must.Eq(t, []int{3}, r.expired())
}

func TestMeasurement_BelievesNoNonsense(t *testing.T) {
	means := []float64{0, -1, 1, 1e308, -1e308, 5e-324, 1e12, 1e9, 1e-9}
	counts := []int{0, -1, 1, 4, 5, 100, math.MaxInt, math.MinInt, 1e9, 1e9 + 1}
	rng := rand.New(rand.NewPCG(1, 2))
	r, l := &Job{}, New()
	for i := range 50_000 {
		now := t0.Add(time.Duration(i) * time.Second)
		reported := StepTime{Mean: means[rng.IntN(len(means))], N: counts[rng.IntN(len(counts))], Samples: means[rng.IntN(len(means))]}
		before := r.Points()
		r.learn(&Progress{Size: 1 + i%5, Samples: reported.Mean, StepSeconds: map[string]StepTime{strconv.Itoa(1 + rng.IntN(5)): reported}}, 1, now)
		r.expire(1+i%5, now)
		l.learnKind("k", before, r.Points(), now)
		for _, m := range r.Measurements {
			must.True(t, m.StepTime == 0 || within(m.StepTime, minStepTime/2, 2*maxSeconds), must.Sprint(m))
			must.Between(t, 0, m.Samples, math.MaxInt32)
		}
	}
	for _, v := range []any{r, l.Kinds} {
		_, err := json.Marshal(v)
		must.NoError(t, err)
	}
}

// Statuses of two hosts may be a second apart, so a count may go back.
func TestMeasurement_ATallyThatGoesBackIsNoNews(t *testing.T) {
	r, tr := &Job{}, newTraining()
	now := report(r, tr, 4, t0, 0.25, 8*time.Hour)
	now = report(r, tr, 8, now, 0.5, 10*time.Minute)
	now = report(r, tr, 4, now, 0.25, 21*time.Minute)
	r.expire(4, now)
	must.Eq(t, []int{8}, r.expired())
	for _, size := range []int{4, 8} {
		tr.steps[size]--
		tr.seconds[size] -= 2
	}
	r.learn(tr.progress(4), 1, now)
	must.InDelta(t, 0.25, timeOf(t, r, 4), 0.01)
	must.Eq(t, []int{8}, r.expired())
}

// If a training gets slower, its times at sizes that it left get slower as well.
func TestMeasurement_SizesCompareAcrossADrift(t *testing.T) {
	r, tr := &Job{}, newTraining()
	now := report(r, tr, 3, t0, 1.0/3, time.Hour)
	now = report(r, tr, 4, now, 1.0/4, time.Hour)
	report(r, tr, 4, now, 1.5/4, time.Hour)
	must.InDelta(t, 0.5, timeOf(t, r, 3), 0.02)
}

func TestMeasurement_SamplesKnownLater(t *testing.T) {
	r, tr := &Job{}, newTraining()
	tr.run(4, 100, 1, 32)
	r.learn(tr.progress(4), 1, t0)
	p := tr.progress(8)
	p.StepSeconds["8"] = StepTime{Mean: 0.6, N: 40}
	r.learn(p, 1, t0)
	p.StepSeconds["8"] = StepTime{Mean: 0.6, N: 60, Samples: 32} // the mean of the last 20
	r.learn(p, 1, t0)
	must.InDelta(t, 0.6, timeOf(t, r, 8), 1e-6)
}

func TestMeasurement_SizesPassedThroughTakeNoPlace(t *testing.T) {
	r, tr := &Job{}, newTraining()
	for n := range 2 * measurementsLimit {
		tr.run(n+1, 2, 1, 0)
	}
	r.learn(tr.progress(1), 1, t0)
	report(r, tr, 100, t0, 1, time.Hour)
	must.InDelta(t, 1, timeOf(t, r, 100), 1e-6)
}

// The time of a job's current size does not expire, even if it argues against growth. A
// time that an older version saved starts with its full lifetime.
func TestMeasurement_WhatIsNotDoubted(t *testing.T) {
	var r Job
	must.NoError(t, json.Unmarshal([]byte(`{"points":[{"size":4,"step_time":0.25,"samples":1000},{"size":8,"step_time":0.5,"samples":100}]}`), &r))
	r.observe(&Observation{Running: 4, Slots: 1}, t0, 0)
	must.SliceEmpty(t, r.expired())
	r.observe(&Observation{Running: 8, Slots: 1}, t0.Add(time.Hour), 0)
	must.SliceEmpty(t, r.expired())
	r.observe(&Observation{Running: 4, Slots: 1}, t0.Add(time.Hour), 0)
	must.Eq(t, []int{8}, r.expired())
}
