// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"math"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Measurement is the known step time at one number of workers.
type Measurement struct {
	// Point is the time in force, for a step of Job.Batch samples; a StepTime of 0 means
	// none.
	speedup.Point

	At      time.Time `json:"at,omitzero"`       // when steps were last taken in
	Trials  int       `json:"trials,omitempty"`  // how often measuring began with no time in force
	Counted int       `json:"counted,omitempty"` // steps that the training had counted then

	// Not saved.
	last StepTime // as last reported
	stay uint64   // Job.stay then
	mean float64  // of the last steps; the time in force follows it
}

const (
	// minSteps is the fewest steps from which a time is taken: the first steps of a ring
	// overlap with the start and stop of other workers.
	minSteps = 4

	// memory is the time after which a step's weight has fallen to 1/e, so that the mean
	// follows a training that gets slower or faster. For slow steps, memorySteps is the
	// same in steps.
	memory      = 10 * time.Minute
	memorySteps = 64

	// minChange is the relative change from which policies see a new time: they plan again
	// each time they see one.
	minChange = 0.02

	// measurementTTL is how long a time is believed after the first trial, if it argues
	// against growing to a size. No policy would go there again, and the cause may have
	// passed: a bad node, another tenant, the first steps of a ring. It doubles with each
	// trial, so that a training that really does not scale is seldom resized for it.
	measurementTTL = 10 * time.Minute
	maxDoublings   = 10

	maxSamples = 1 << 29
)

// steps are the new steps since the last report; none if their number is unknown.
type steps struct {
	n    int
	mean float64 // seconds, in steps of Job.Batch
	took float64 // seconds, all of them
}

// update processes the steps that the training has counted at this size, but no more than
// fit into had seconds. Times are for steps of batch samples (0: regardless of samples).
// It returns the new steps, and the factor by which the training has become slower (1 if
// it has not).
func (m *Measurement) update(t StepTime, batch, had float64, now time.Time) (made steps, drift float64) {
	t.N = max(0, t.N)
	if t.N > 0 && (t.N < m.Counted || t.N > m.Counted && m.last.N != m.Counted || m.Counted == 0 && m.StepTime > 0) {
		// Which steps are new is unknown: another leader counts, or an earlier autoscaler
		// took some of them in, perhaps without saving its count.
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
		fresh.N = int(most) // the first ones may predate our first look at Nomad
	}
	m.At = now
	return steps{fresh.N, step, float64(fresh.N) * fresh.Mean}, m.average(step, fresh.N)
}

// step returns the time of a step of batch samples (0: regardless of samples); ok is false
// if that is unknown or not plausible.
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

// average updates the time in force with n more steps; n is 0 if step is the mean of all
// steps so far. It returns the drift, as update does.
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

// since returns the steps made since the last report.
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

// measure processes the training's step count at a size, if Nomad saw the job at that
// size. A size without a time in force does not count towards measurementsLimit.
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
		// The workers may have moved, which could explain the change.
		drift = 1
	}
	if drift != 1 {
		j.drift(drift, m, at)
	}
}

// drift applies a drift to all other measurements: a training that becomes slower does so
// at all sizes, and times measured before and after would not be comparable. seen is the
// measurement that showed the drift; at is the one of the job's place, if that is known.
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

// Points returns the measured step times that have not expired.
func (j *Job) Points() []speedup.Point {
	var out []speedup.Point
	for _, m := range j.Measurements {
		if m.StepTime > 0 {
			out = append(out, m.Point)
		}
	}
	return out
}

// expire forgets times that have argued against growth for long enough, except that of the
// size at which the training runs.
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

// ttl returns how long a measurement is believed: first, doubled with each trial after the
// first.
func ttl(first time.Duration, trials int) time.Duration {
	return first << min(max(0, trials-1), maxDoublings)
}

// expired returns the sizes whose times have expired.
func (j *Job) expired() []int {
	var out []int
	for _, m := range j.Measurements {
		if m.StepTime == 0 {
			out = append(out, m.Size)
		}
	}
	return out
}
