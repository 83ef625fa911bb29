// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

const (
	// lateAfter is the time after the end of the expected range of a start from which on the
	// job is late. Writes and placements take some seconds.
	lateAfter = time.Minute
	// stalledEvery is the shortest time between two events about stalls of one job, because
	// its own agents report them.
	stalledEvery = 10 * time.Minute
)

// promise is the end of the range that the first forecast gave for the start of a job. Later
// forecasts move the range, so a job would never be late by them.
type promise struct {
	since  time.Time // when the job began to wait
	latest time.Time // zero without a forecast
	told   bool      // there was an event about it
}

// noteLate emits an event if a job still waits after its first expected range. The caller
// holds c.mu.
func (c *Controller) noteLate(js *api.JobStatus, now time.Time) {
	p := &c.job(js.JobKey).promise
	w := js.Waits
	if w == nil || w.Reason == waiting.Paused || w.Reason == waiting.Held || w.Reason == waiting.Invalid {
		*p = promise{}
		return
	}
	if !p.since.Equal(w.Since) {
		*p = promise{since: w.Since}
	}
	if e := w.Expected; p.latest.IsZero() && e != nil {
		p.latest = e.Latest
	}
	if p.told || p.latest.IsZero() || now.Sub(p.latest) < lateAfter {
		return
	}
	p.told = true
	e := jobEvent("late", js.JobKey)
	e.From, e.To = js.Count, js.Count
	e.Reason = fmt.Sprintf("it was expected to start by %s, and waits: %s", p.latest.UTC().Format(time.DateTime), w.Reason)
	c.events = append(c.events, e)
}

// stalls remembers which stall of a job was reported.
type stalls struct {
	generation uint64    // of the ring
	told       time.Time // of the last event
}

// hearStall emits an event if a training reports a stall that it has not reported before. first
// states that this is the first report that this autoscaler receives. The caller holds c.mu.
func (c *Controller) hearStall(j *job, key identity.JobKey, got *history.Stall, first bool, now time.Time) {
	if got == nil || got.Generation == j.stalls.generation {
		return
	}
	j.stalls.generation = got.Generation
	if first || now.Sub(j.stalls.told) < stalledEvery {
		return
	}
	j.stalls.told = now
	e := jobEvent("stalled", key)
	e.From, e.To, e.Reason = got.Size, got.Size, fmt.Sprintf("its ring of %d made no step for %.0f s", got.Size, got.Seconds)
	c.events = append(c.events, e)
	c.log.Warn("the training of a job has stalled", "job", key, "reason", e.Reason)
}
