// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// Recorder turns statuses into events by comparing each status with the one before. The
// zero value is ready to use. It is not safe for concurrent use.
type Recorder struct {
	pools map[string]bool
	jobs  map[string]*job
	now   float64
}

// job is what has been recorded of one job.
type job struct {
	seen  time.Time // a job registered again is another one
	name  string    // in the log
	bound trace.Event
	count int
	known map[int]int // samples by size
	gaps  []history.Gap
	steps float64
	ended bool
	here  bool // in the present status
}

// Take returns the events that are new in a status.
func (r *Recorder) Take(s *api.Status) []trace.Event {
	if !s.Ready {
		return nil
	}
	if r.jobs == nil {
		r.pools, r.jobs = map[string]bool{}, map[string]*job{}
	}
	r.now = unix(s.Time)
	var out []trace.Event
	for _, p := range s.Pools {
		if !r.pools[p.Name] && p.Capacity > 0 {
			r.pools[p.Name] = true
			out = append(out, trace.Event{Time: r.now, Kind: trace.EventNode, Node: p.Name, Type: p.Name, GPUs: p.Capacity, State: trace.NodeUp.String()})
		}
	}
	for _, j := range r.jobs {
		j.here = false
	}
	for i := range s.Jobs {
		out = append(out, r.job(&s.Jobs[i])...)
	}
	return append(out, r.gone()...)
}

// Close returns the progress of the jobs that still run, as the last events. With these,
// jobs that do not report their length can be replayed up to the end of the recording.
func (r *Recorder) Close() []trace.Event {
	var out []trace.Event
	for _, key := range slices.Sorted(maps.Keys(r.jobs)) {
		if j := r.jobs[key]; !j.ended && j.steps > 0 {
			out = append(out, trace.Event{Time: r.now, Kind: trace.EventProgress, Job: j.name, Steps: &j.steps})
		}
	}
	return out
}

func (r *Recorder) job(s *api.JobStatus) []trace.Event {
	j := r.jobs[s.Key()]
	if j == nil || !j.seen.Equal(s.Seen) {
		if s.State == api.StateComplete {
			return nil // its life was not seen
		}
		name := s.Key()
		if j != nil {
			name += "@" + s.Seen.UTC().Format(time.RFC3339) // another life
		}
		j = &job{seen: s.Seen, name: name, known: map[int]int{}}
		r.jobs[s.Key()] = j
	}
	j.here = true
	if j.ended {
		return nil
	}
	var out []trace.Event
	bound := describe(s)
	if math.Abs(bound.TotalSteps-j.bound.TotalSteps) < totalChange*bound.TotalSteps {
		bound.TotalSteps = j.bound.TotalSteps
	}
	if !reflect.DeepEqual(bound, j.bound) {
		e := bound
		e.Job, e.Time = j.name, r.now
		if j.bound.Kind == "" {
			e.Time = unix(s.Seen)
		}
		j.bound = bound
		out = append(out, e)
	}
	if s.Count != j.count {
		j.count = s.Count
		n := s.Count
		out = append(out, trace.Event{Time: r.now, Kind: trace.EventCount, Job: j.name, Count: &n, Reason: s.Reason})
	}
	out = append(out, j.measured(s.StepTimes, r.now)...)
	out = append(out, j.resized(s, r.now)...)
	j.steps = max(j.steps, s.Step)
	if s.State == api.StateComplete {
		out = append(out, j.end(r.now, "complete"))
	}
	return out
}

// totalChange is the relative change from which a job's length is recorded again: a
// length that is estimated from samples changes all the time.
const totalChange = 0.01

// describe returns what a job asks for, without name and time.
func describe(s *api.JobStatus) trace.Event {
	a, preemptible := &s.Requests, s.Requests.Preemptible
	e := trace.Event{
		Kind: trace.EventJob, App: a.Kind, Tenant: cmp.Or(s.Tenant, s.Queue), Type: s.Pool, Weight: a.Weight, Priority: a.Priority,
		Min: s.Min, Max: s.Max, Preferred: a.Preferred, Sizes: a.Sizes, PerWorker: a.Slots, Preemptible: &preemptible, TotalSteps: s.Total,
	}
	if !a.Deadline.IsZero() {
		e.Deadline = unix(a.Deadline)
	}
	return e
}

// measured records the time of a size when it is first measured, and each time its samples
// have doubled.
func (j *job) measured(points []speedup.Point, now float64) []trace.Event {
	var out []trace.Event
	for _, p := range points {
		old := j.known[p.Size]
		if p.Samples < old { // measured again
			old = 0
		}
		if p.Samples < max(1, 2*old) {
			continue
		}
		j.known[p.Size] = p.Samples
		out = append(out, trace.Event{Time: now, Kind: trace.EventStepTime, Job: j.name, Workers: p.Size, Seconds: p.StepTime, Samples: p.Samples - old})
	}
	return out
}

// resized records the new gaps whose seconds are known. The status has only the last
// few, the oldest first.
func (j *job) resized(s *api.JobStatus, now float64) []trace.Event {
	known := 0
	for n := min(len(j.gaps), len(s.Gaps)); n > 0; n-- {
		if slices.EqualFunc(j.gaps[len(j.gaps)-n:], s.Gaps[:n], sameGap) {
			known = n
			break
		}
	}
	var out []trace.Event
	slots := max(1, s.Requests.Slots)
	for _, g := range s.Gaps[known:] {
		if to := g.To / slots; to > 0 && g.Seconds != nil {
			out = append(out, trace.Event{Time: now, Kind: trace.EventResize, Job: j.name, From: g.From / slots, To: to, Seconds: *g.Seconds})
		}
	}
	j.gaps = slices.Clone(s.Gaps)
	return out
}

func sameGap(a, b history.Gap) bool {
	same := func(a, b *float64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	return a.From == b.From && a.To == b.To && same(a.Seconds, b.Seconds) && same(a.Lost, b.Lost)
}

// gone ends jobs that the status no longer has.
func (r *Recorder) gone() []trace.Event {
	var out []trace.Event
	for _, key := range slices.Sorted(maps.Keys(r.jobs)) {
		if j := r.jobs[key]; !j.here && !j.ended {
			out = append(out, j.end(r.now, "stopped"))
		}
	}
	return out
}

func (j *job) end(now float64, outcome string) trace.Event {
	j.ended = true
	return trace.Event{Time: now, Kind: trace.EventEnd, Job: j.name, Steps: &j.steps, Outcome: outcome}
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
