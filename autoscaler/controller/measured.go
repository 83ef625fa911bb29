// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"math"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Measured is what is known of the time of a step at one number of workers.
type Measured struct {
	// The time in force, in steps of Record.Batch; a StepTime of 0 is none.
	policy.Point

	At     time.Time `json:"at,omitzero"`      // when a step was last heard of
	Trials int       `json:"trials,omitempty"` // how often it was measured from nothing
	Heard  int       `json:"heard,omitempty"`  // steps that the training had counted by then

	// Lost with the agent.
	told cluster.StepTime // what it said then
	mean float64          // of the last steps; the time in force follows it
}

const (
	// leastSamples is how many steps a time must be the mean of: the first of a
	// ring fall into the time in which others start and stop.
	leastSamples = 4

	// memory is the time in which steps come to count 1/e, so that the mean
	// follows a training that gets slower or faster; leastMemory is the same in
	// steps, for those that take long.
	memory      = 10 * time.Minute
	leastMemory = 64

	// notable is by which part a time must have changed for policies to hear of
	// it: each time they do, they plan anew.
	notable = 0.02

	// trust is for how long a time is believed after the first trial that speaks
	// against growing to a size at all. No policy would go there again, and what
	// made it slow may have passed: a bad node, another tenant, the first steps
	// of a ring. It doubles with each trial, so that a training which really
	// does not scale is seldom bothered.
	trust       = 10 * time.Minute
	mostTrusted = 10 // doublings

	mostSamples = 1 << 29
)

// hear takes in what the training has counted at this size, in steps of batch
// samples (0: of whatever a step takes). It returns by how much the training has
// got slower or faster since this size was first measured, 1 where it has not.
func (m *Measured) hear(t cluster.StepTime, batch float64, now time.Time) (drift float64) {
	t.N = max(0, t.N)
	if t.N > 0 && (t.N < m.Heard || t.N > m.Heard && m.told.N != m.Heard) {
		// Another leader counts it, or an agent that has ended heard of some:
		// which steps are new cannot be told.
		m.Heard, m.told = t.N, t
		return 1
	}
	news := m.since(t)
	if t.N > 0 && news.N < leastSamples || t.N == 0 && t == m.told {
		return 1
	}
	m.Heard, m.told = t.N, t
	step := news.Mean
	if batch > 0 {
		if !sampled(news) {
			return 1
		}
		step *= batch / news.Samples
	}
	if !within(step, leastStep, mostSeconds) {
		return 1
	}
	m.At = now
	return m.take(step, news.N)
}

// take lets the time in force follow n more steps, or a mean of all of them (0).
func (m *Measured) take(step float64, n int) (drift float64) {
	if m.StepTime == 0 {
		m.Trials++
	}
	if m.StepTime == 0 || n == 0 {
		m.Samples = 0
	}
	if m.mean == 0 {
		m.mean = m.StepTime
	}
	limit := max(memory.Seconds(), leastMemory*m.mean)
	weight, past := float64(max(1, n)), 0.0
	if m.Samples > 0 {
		past = math.Exp(-weight*step/limit) * min(float64(m.Samples), limit/m.mean)
	}
	ripe := float64(m.Samples)*m.mean >= limit
	m.mean = (past*m.mean + weight*step) / (past + weight)
	m.Samples = min(m.Samples, mostSamples) + min(n, mostSamples)
	if m.Samples >= leastMemory && math.Abs(m.mean-m.StepTime) <= notable*m.StepTime {
		return 1
	}
	before := m.StepTime
	m.StepTime = m.mean
	if !ripe {
		return 1
	}
	return m.StepTime / before
}

// since are the steps made since the training was last heard.
func (m *Measured) since(t cluster.StepTime) cluster.StepTime {
	switch t.N {
	case 0: // not counted
		return t
	case m.Heard:
		return cluster.StepTime{}
	}
	all, before := float64(t.N), float64(m.Heard)
	part := func(now, then float64) float64 { return (now*all - then*before) / (all - before) }
	news := cluster.StepTime{N: t.N - m.Heard, Mean: part(t.Mean, m.told.Mean), Samples: t.Samples}
	if m.told.Samples > 0 {
		news.Samples = part(t.Samples, m.told.Samples)
	}
	return news
}

// hear takes in what the training has counted at a size. What it does not yet
// believe takes none of the places.
func (r *Record) hear(size int, t cluster.StepTime, now time.Time) {
	i := slices.IndexFunc(r.Points, func(m Measured) bool { return m.Size == size })
	if i < 0 {
		m := Measured{Point: policy.Point{Size: size}}
		if m.hear(t, r.Batch, now); m.StepTime > 0 && len(r.Points) < pointsLimit {
			r.Points = append(r.Points, m)
		}
		return
	}
	drift := r.Points[i].hear(t, r.Batch, now)
	if drift == 1 {
		return
	}
	// A training that gets slower does so at all sizes: measured at different
	// times, they would compare ill.
	for k := range r.Points {
		if m := &r.Points[k]; k != i && within(m.StepTime*drift, leastStep, mostSeconds) {
			m.StepTime, m.mean = m.StepTime*drift, m.mean*drift
		}
	}
}

// points are the times that are believed.
func (r *Record) points() []policy.Point {
	var out []policy.Point
	for _, m := range r.Points {
		if m.StepTime > 0 {
			out = append(out, m.Point)
		}
	}
	return out
}

// doubt gives up times that have spoken against growing for long enough; not
// that of the size at which the training runs.
func (r *Record) doubt(running int, now time.Time) {
	for i := range r.Points {
		m := &r.Points[i]
		if m.At.IsZero() { // of an older version
			m.At = now
		}
		futile := slices.ContainsFunc(r.Points, func(q Measured) bool { return q.Size < m.Size && 0 < q.StepTime && q.StepTime <= m.StepTime })
		if futile && m.Size != running && now.Sub(m.At) > longer(trust, m.Trials) {
			m.StepTime, m.mean, m.Samples = 0, 0, 0
		}
	}
}

// longer doubles a time with each trial after the first.
func longer(d time.Duration, trials int) time.Duration {
	return d << min(max(0, trials-1), mostTrusted)
}

// doubted are the sizes whose times were given up.
func (r *Record) doubted() []int {
	var out []int
	for _, m := range r.Points {
		if m.StepTime == 0 {
			out = append(out, m.Size)
		}
	}
	return out
}
