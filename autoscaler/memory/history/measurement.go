// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"math"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Measurement is what is known of the time of a step at one number of workers.
type Measurement struct {
	// The time in force, in steps of Job.Batch; a StepTime of 0 is none.
	speedup.Point

	At      time.Time `json:"at,omitzero"`       // of the last steps that were taken in
	Trials  int       `json:"trials,omitempty"`  // how often it was measured from nothing
	Counted int       `json:"counted,omitempty"` // steps that the training had counted by then

	// Not saved.
	last StepTime // as last reported
	stay uint64   // Job.stay by then
	mean float64  // of the last steps; the time in force follows it
}

const (
	// minSteps is how many steps a time must be the mean of: the first of a ring
	// fall into the time in which others start and stop.
	minSteps = 4

	// memory is the time in which steps come to count 1/e, so that the mean
	// follows a training that gets slower or faster; memorySteps is the same in
	// steps, for those that take long.
	memory      = 10 * time.Minute
	memorySteps = 64

	// minChange is by which part a time must have changed for policies to see
	// it: each time they do, they plan again.
	minChange = 0.02

	// measurementTTL is for how long a time is believed after the first trial
	// that speaks against growing to a size at all. No policy would go there
	// again, and what made it slow may have passed: a bad node, another tenant,
	// the first steps of a ring. It doubles with each trial, so that a training
	// which really does not scale is seldom resized for it.
	measurementTTL = 10 * time.Minute
	maxDoublings   = 10

	maxSamples = 1 << 29
)

// steps are those that were made since the last report, and counted: none where
// that is not known.
type steps struct {
	n    int
	mean float64 // seconds, in steps of Job.Batch
	took float64 // seconds, all of them
}

// update takes in what the training has counted at this size, in steps of batch
// samples (0: of whatever a step takes), as far as they fit into so many seconds. It
// returns the steps that are new, and by how much the training has got slower or
// faster since this size was first measured, 1 where it has not.
func (m *Measurement) update(t StepTime, batch, had float64, now time.Time) (made steps, drift float64) {
	t.N = max(0, t.N)
	if t.N > 0 && (t.N < m.Counted || t.N > m.Counted && m.last.N != m.Counted || m.Counted == 0 && m.StepTime > 0) {
		// Another leader counts, or an autoscaler that has ended took some of them
		// in, maybe one that saved no count: which steps are new is unknown.
		m.Counted, m.last = t.N, t
		return steps{}, 1
	}
	fresh := m.since(t)
	if t.N > 0 && fresh.N < minSteps || t.N == 0 && t == m.last {
		return steps{}, 1
	}
	m.Counted, m.last = t.N, t
	step, ok := fresh.step(batch)
	if !ok {
		return steps{}, 1
	}
	if most := had / fresh.Mean; most < float64(max(1, fresh.N)) {
		if most < minSteps {
			return steps{}, 1
		}
		fresh.N = int(most) // the first ones may be of before Nomad was watched
	}
	m.At = now
	return steps{fresh.N, step, float64(fresh.N) * fresh.Mean}, m.average(step, fresh.N)
}

// step is the time of a step of batch samples (0: of whatever a step takes), ok is
// false where that cannot be.
func (t StepTime) step(batch float64) (seconds float64, ok bool) {
	seconds = t.Mean
	if batch > 0 {
		if !t.hasSamples() {
			return 0, false
		}
		seconds *= batch / t.Samples
	}
	return seconds, within(seconds, minStepTime, maxSeconds)
}

// average lets the time in force follow n more steps, or a mean of all of them
// (0).
func (m *Measurement) average(step float64, n int) (drift float64) {
	if m.StepTime == 0 {
		m.Trials++
	}
	if m.StepTime == 0 || n == 0 {
		m.Samples = 0
	}
	if m.mean == 0 {
		m.mean = m.StepTime
	}
	limit := max(memory.Seconds(), memorySteps*m.mean)
	weight, past := float64(max(1, n)), 0.0
	if m.Samples > 0 {
		past = math.Exp(-weight*step/limit) * min(float64(m.Samples), limit/m.mean)
	}
	full := float64(m.Samples)*m.mean >= limit
	m.mean = (past*m.mean + weight*step) / (past + weight)
	m.Samples = min(m.Samples, maxSamples) + min(n, maxSamples)
	if m.Samples >= memorySteps && math.Abs(m.mean-m.StepTime) <= minChange*m.StepTime {
		return 1
	}
	before := m.StepTime
	m.StepTime = m.mean
	if !full {
		return 1
	}
	return m.StepTime / before
}

// since are the steps made since the last report.
func (m *Measurement) since(t StepTime) StepTime {
	switch t.N {
	case 0: // not counted
		return t
	case m.Counted:
		return StepTime{}
	}
	all, before := float64(t.N), float64(m.Counted)
	part := func(now, then float64) float64 { return (now*all - then*before) / (all - before) }
	fresh := StepTime{N: t.N - m.Counted, Mean: part(t.Mean, m.last.Mean), Samples: t.Samples}
	if m.last.Samples > 0 {
		fresh.Samples = part(t.Samples, m.last.Samples)
	}
	return fresh
}

// measure takes in what the training has counted at a size, if it had that. A size
// that has no time in force yet takes none of the places.
func (j *Job) measure(size int, t StepTime, now time.Time) {
	had, ok := j.has(size, now)
	if !ok {
		return
	}
	i := slices.IndexFunc(j.Measurements, func(m Measurement) bool { return m.Size == size })
	if i < 0 {
		m := Measurement{Point: speedup.Point{Size: size}, stay: j.stay}
		if made, _ := m.update(t, j.Batch, had, now); m.StepTime > 0 && len(j.Measurements) < measurementsLimit {
			j.Measurements = append(j.Measurements, m)
			j.Had[size] -= made.took
		}
		return
	}
	m := &j.Measurements[i]
	counted := m.Counted
	made, drift := m.update(t, j.Batch, had, now)
	j.Had[size] -= made.took
	stayed := m.stay == j.stay && size == j.settled.Workers
	if m.Counted != counted {
		m.stay = j.stay
	}
	var at *Measurement
	switch {
	case stayed && made.n > 0:
		at, drift = j.place(made, now)
	case len(j.Placed) > 0:
		// Workers that are elsewhere now may be as much slower or faster as that.
		drift = 1
	}
	if drift != 1 {
		j.drift(drift, m, at)
	}
}

// drift takes in that the training has got slower or faster, as was seen in one
// measurement and, where it is known, where that was. A training that gets slower
// does so at all sizes: measured at different times, they would compare ill.
func (j *Job) drift(by float64, seen, at *Measurement) {
	follow := func(m *Measurement) {
		if m != seen && m != at && within(m.StepTime*by, minStepTime, maxSeconds) {
			m.StepTime, m.mean = m.StepTime*by, m.mean*by
		}
	}
	for i := range j.Measurements {
		follow(&j.Measurements[i])
	}
	for i := range j.Placed {
		follow(&j.Placed[i].Measurement)
	}
}

// Points are the step times in force.
func (j *Job) Points() []speedup.Point {
	var out []speedup.Point
	for _, m := range j.Measurements {
		if m.StepTime > 0 {
			out = append(out, m.Point)
		}
	}
	return out
}

// expire gives up times that have spoken against growing for long enough; not
// that of the size at which the training runs.
func (j *Job) expire(running int, now time.Time) {
	for i := range j.Measurements {
		m := &j.Measurements[i]
		if m.At.IsZero() { // of an older version
			m.At = now
		}
		nonImproving := slices.ContainsFunc(j.Measurements, func(q Measurement) bool { return q.Size < m.Size && 0 < q.StepTime && q.StepTime <= m.StepTime })
		if nonImproving && m.Size != running && now.Sub(m.At) > ttl(measurementTTL, m.Trials) {
			m.StepTime, m.mean, m.Samples = 0, 0, 0
		}
	}
}

// ttl doubles a time with each trial after the first.
func ttl(first time.Duration, trials int) time.Duration {
	return first << min(max(0, trials-1), maxDoublings)
}

// expired are the sizes whose times were given up.
func (j *Job) expired() []int {
	var out []int
	for _, m := range j.Measurements {
		if m.StepTime == 0 {
			out = append(out, m.Size)
		}
	}
	return out
}
