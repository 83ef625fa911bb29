// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"cmp"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// maxResizes is how many resizes a status lists.
const maxResizes = 64

// ringStats measures rings: gaps, lost steps and step times.
type ringStats struct {
	open     wire.Resize // being measured
	closed   bool        // open was added to resizes
	stopped  time.Time
	formed   time.Time
	last     wire.Progress // of the previous ring
	latest   wire.Progress // of the current ring
	reports  bool          // the script reports steps
	every    float64       // largest number of steps between two reports; see wire.Progress
	vanished bool          // a host was lost that may not have reported all of the previous ring's progress
	replaced bool          // the members are other processes than those of the previous ring
	resizes  []wire.Resize
	tallies  map[int]tally // by ring size
	size     int
	counted  wire.Progress // latest, up to which steps are in the tallies
	failures bool
}

// A tally adds up the measured steps of rings of one size.
type tally struct {
	steps, seconds float64
	// samples is the number of samples in those steps for which it is known, and sampled
	// the number of these steps.
	samples, sampled float64
}

func newRingStats(s *wire.Status) *ringStats {
	r := &ringStats{tallies: map[int]tally{}, closed: true}
	if s != nil {
		r.resizes = s.Resizes
		r.size = s.Size
		for n, t := range s.StepSeconds {
			steps := float64(t.N)
			r.tallies[n] = tally{steps: steps, seconds: t.Mean * steps}
			if t.Samples > 0 {
				r.tallies[n] = tally{steps: steps, seconds: t.Mean * steps, samples: t.Samples * steps, sampled: steps}
			}
		}
		r.latest = wire.Progress{Generation: s.Generation, At: s.ProgressAt, Step: s.Step, Samples: s.Samples,
			Epoch: s.Epoch, TotalSteps: s.TotalSteps, Loss: s.Loss, Adaptive: s.Adaptive, SteppedAt: s.SteppedAt}
		r.counted = r.latest // by the previous leader
		r.reports = s.Step != nil
	}
	return r
}

// leave records that the first process left the ring.
func (r *ringStats) leave(now time.Time) {
	if r.stopped.IsZero() {
		r.stopped = now
	}
}

// fail records that the ring lost a process.
func (r *ringStats) fail() { r.failures = true }

// vanish records that the ring lost a host.
func (r *ringStats) vanish() { r.failures, r.vanished = true, true }

// form records a new ring.
func (r *ringStats) form(ring *elastic.Ring, now time.Time) {
	cause := "resize"
	switch {
	case r.size == 0:
		cause = "start"
	case r.failures:
		cause = "failure"
	}
	r.count()
	if !r.closed && r.latest.FirstSteppedAt > 0 { // the report with the number of its first step is missing
		stopped, vanished := r.stopped, r.vanished
		r.measure(r.latest)
		r.close()
		r.stopped, r.vanished = stopped, vanished
	}
	if r.stopped.IsZero() {
		r.stopped = now
	}
	r.open = wire.Resize{Generation: ring.Generation, From: r.size, To: len(ring.Members), Cause: cause, Time: wire.Seconds(now)}
	r.closed, r.formed, r.failures, r.replaced = false, now, false, ring.Restarts
	if cause == "start" || cause == "resize" && !r.replaced {
		r.open.LostSteps = new(float64) // processes that stay leave at a commit
	}
	if r.latest.Newest() > 0 {
		r.last = r.latest
	}
	r.latest, r.counted, r.size = wire.Progress{}, wire.Progress{}, len(ring.Members)
}

// up records that all processes are connected, and returns the resize if that completes it.
// If the script reports steps, the resize is complete only after the ring's first step. If
// new processes form the ring, no time is measured, because they may still have to load a
// checkpoint.
func (r *ringStats) up(now time.Time) *wire.Resize {
	if r.closed {
		return nil
	}
	if !r.replaced {
		r.open.Rendezvous = seconds(now.Sub(r.formed))
		r.open.Gap = seconds(now.Sub(r.stopped))
	}
	if r.last.SteppedAt > 0 {
		return nil
	}
	return r.close()
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// progress records a report of the script, and returns the resize if that completes it.
func (r *ringStats) progress(p wire.Progress) *wire.Resize {
	r.reports = r.reports || p.Step != nil
	r.every = cmp.Or(p.Every, r.every)
	if p.Generation != r.open.Generation && r.open.Generation != 0 {
		if p.Generation+1 == r.open.Generation && p.Newest() > r.last.Newest() { // the end of the previous ring
			r.last = p
		}
		return nil
	}
	if p.Newest() < r.latest.Newest() {
		return nil
	}
	r.latest = p
	r.count()
	if r.closed || p.FirstSteppedAt == 0 || r.awaitsNumber(p) {
		return nil
	}
	r.measure(p)
	return r.close()
}

// awaitsNumber reports whether the number of the ring's first step is still unknown. A step
// may be seen before the script's line with its number.
func (r *ringStats) awaitsNumber(p wire.Progress) bool {
	return r.open.LostSteps == nil && p.First == nil && r.last.Step != nil && r.every == 1 && p.SteppedAt == p.FirstSteppedAt
}

// measure compares the first step of a ring with the last one of the previous ring.
func (r *ringStats) measure(p wire.Progress) {
	if r.last.SteppedAt > 0 {
		r.open.Gap = nil
		if gap := p.FirstSteppedAt - r.last.SteppedAt; gap >= 0 { // otherwise the clocks of the two hosts differ
			r.open.Gap = &gap
		}
	}
	if p.First != nil && r.last.Step != nil && r.every == 1 && !r.vanished {
		lost := max(0, *r.last.Step+1-*p.First)
		r.open.LostSteps = &lost
	}
}

func (r *ringStats) close() *wire.Resize {
	r.closed, r.stopped, r.vanished = true, time.Time{}, false
	r.resizes = append(r.resizes, r.open)
	if n := len(r.resizes); n > maxResizes {
		r.resizes = r.resizes[n-maxResizes:]
	}
	return &r.open
}

// count adds the steps since the last call to the tally of the ring's size.
func (r *ringStats) count() {
	p, from := r.latest, r.counted
	if p.Step == nil || p.First == nil || r.size == 0 {
		return
	}
	if from.Step == nil {
		from.Step, from.Samples, from.At = p.First, p.FirstSamples, p.FirstAt
	}
	if n := *p.Step - *from.Step; n > 0 && p.At > from.At {
		t := r.tallies[r.size]
		t.steps += n
		t.seconds += p.At - from.At
		if p.Samples != nil && from.Samples != nil && *p.Samples > *from.Samples {
			t.samples += *p.Samples - *from.Samples
			t.sampled += n
		}
		r.tallies[r.size], r.counted = t, p
	}
}

// newest returns the last report of the current ring or, if there is none, of the previous
// one.
func (r *ringStats) newest() wire.Progress {
	if r.latest.Newest() > 0 {
		return r.latest
	}
	return r.last
}

func (r *ringStats) stepSeconds() map[int]wire.StepTime {
	m := map[int]wire.StepTime{}
	for n, t := range r.tallies {
		if t.steps <= 0 {
			continue
		}
		out := wire.StepTime{Mean: t.seconds / t.steps, N: int(t.steps)}
		if t.sampled > 0 {
			out.Samples = t.samples / t.sampled
		}
		m[n] = out
	}
	return m
}
