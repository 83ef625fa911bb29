// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

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
)

// hear takes in what the training has counted at this size, in steps of batch
// samples (0: of whatever a step takes).
func (m *Measured) hear(t cluster.StepTime, batch float64, now time.Time) {
	if t.N > m.Heard && m.told.N != m.Heard {
		// An agent that has ended heard of some: which, it alone knew.
		m.Heard, m.told = t.N, t
		return
	}
	news := m.since(t)
	if t.N > 0 && news.N < leastSamples {
		return
	}
	m.Heard, m.told = t.N, t
	step := news.Mean
	if batch > 0 {
		if !sampled(news) {
			return
		}
		step *= batch / news.Samples
	}
	if !within(step, leastStep, mostSeconds) {
		return
	}
	if m.StepTime == 0 {
		m.Trials++
	}
	if m.StepTime == 0 || t.N == 0 { // uncounted, it is the mean of all steps
		m.Samples = 0
	}
	if m.mean == 0 {
		m.mean = m.StepTime
	}
	n, limit := float64(max(1, news.N)), max(memory.Seconds(), leastMemory*m.mean)
	past := 0.0
	if m.Samples > 0 {
		past = math.Exp(-n*step/limit) * min(float64(m.Samples), limit/m.mean)
	}
	m.mean = (past*m.mean + n*step) / (past + n)
	m.Samples = min(m.Samples, mostSteps) + news.N
	if m.Samples < leastMemory || math.Abs(m.mean-m.StepTime) > notable*m.StepTime {
		m.StepTime = m.mean
	}
	m.At = now
}

// since are the steps made since the training was last heard.
func (m *Measured) since(t cluster.StepTime) cluster.StepTime {
	switch {
	case t.N == 0 || t.N < m.Heard: // not counted, or counted anew
		return t
	case t.N == m.Heard:
		return cluster.StepTime{}
	}
	all, before := float64(t.N), float64(m.Heard)
	part := func(now, then float64) float64 { return (now*all - then*before) / (all - before) }
	return cluster.StepTime{N: t.N - m.Heard, Mean: part(t.Mean, m.told.Mean), Samples: part(t.Samples, m.told.Samples)}
}

// at is what is known of a size; nil where no more is to be remembered.
func (r *Record) at(size int) *Measured {
	i := slices.IndexFunc(r.Points, func(m Measured) bool { return m.Size == size })
	if i < 0 {
		if len(r.Points) == pointsLimit {
			return nil
		}
		i = len(r.Points)
		r.Points = append(r.Points, Measured{Point: policy.Point{Size: size}})
	}
	return &r.Points[i]
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

// doubt gives up times that have spoken against growing for long enough.
func (r *Record) doubt(now time.Time) {
	believed := r.points()
	for i := range r.Points {
		m := &r.Points[i]
		futile := slices.ContainsFunc(believed, func(p policy.Point) bool { return p.Size < m.Size && p.StepTime <= m.StepTime })
		if futile && now.Sub(m.At) > longer(trust, m.Trials) {
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
		if m.StepTime == 0 && m.Trials > 0 {
			out = append(out, m.Size)
		}
	}
	return out
}
