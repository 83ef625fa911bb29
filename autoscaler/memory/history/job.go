// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"maps"
	"time"
)

// Job holds what is remembered of one job.
type Job struct {
	Created    uint64         `json:"created"` // index of the job's creation
	FirstSeen  time.Time      `json:"first_seen"`
	Submitted  time.Time      `json:"submitted,omitzero"` // first in this life: scaling changes Nomad's time
	FirstStart time.Time      `json:"first_start,omitzero"`
	Whole      bool           `json:"whole,omitempty"`      // it once had the workers of its minimum
	LastChange time.Time      `json:"last_change,omitzero"` // of the count
	Attained   float64        `json:"attained"`             // slot-seconds
	RunTime    float64        `json:"run_time"`             // seconds with workers
	Pardoned   float64        `json:"pardoned,omitzero"`    // of these, seconds before it was registered again after a stop
	StoppedAt  uint64         `json:"stopped_at,omitempty"` // version of the job that has run for as long as it may; 0 if it may run
	Resizes    int            `json:"resizes"`
	Counts     map[string]int `json:"counts,omitempty"`     // by group, as last seen
	Spares     map[string]int `json:"spares,omitempty"`     // how many of Counts are spares
	LastIndex  uint64         `json:"last_index,omitempty"` // JobModifyIndex after our last write
	// ManualUntil is the time until which a count that was set by hand stays.
	ManualUntil time.Time `json:"manual_until,omitzero"`
	// GrowAfter holds, by group, the time until which a group does not grow because its
	// workers found no place.
	GrowAfter map[string]time.Time `json:"grow_after,omitempty"`

	Frozen    bool      `json:"frozen,omitempty"`    // a worker has completed
	FrozenAt  uint64    `json:"frozen_at,omitempty"` // job version at the completion
	Epoch     uint64    `json:"epoch,omitempty"`     // completions up to this index are of an earlier life
	Completed time.Time `json:"completed,omitzero"`

	Measurements []Measurement   `json:"points,omitempty"` // step times
	Had          map[int]float64 `json:"had,omitempty"`    // seconds at each size, in workers, minus those of steps already counted
	Placed       []Placed        `json:"placed,omitempty"` // step times by where the workers were
	Batch        float64         `json:"batch,omitempty"`  // samples of one step in which work is counted
	Adapts       bool            `json:"adapts,omitempty"` // the training adapts its batch; Batch is the initial one
	Done         float64         `json:"done,omitempty"`   // global steps
	Total        float64         `json:"total,omitempty"`  // as the training reports
	Gaps         []Gap           `json:"gaps,omitempty"`   // the last resizes
	Costs        []float64       `json:"costs,omitempty"`  // seconds of the last resizes that this autoscaler wrote

	Move  *Move       `json:"move,omitempty"`  // the last one
	Moves []time.Time `json:"moves,omitempty"` // when moves began

	LastGap float64 `json:"last_gap,omitempty"` // time of the last resize that was seen
	Lost    float64 `json:"lost,omitempty"`     // steps lost to resizes, as far as known
	// Uncounted is true if it is unknown how many steps some resize lost.
	Uncounted bool `json:"uncounted,omitempty"`
	Tagged    bool `json:"tagged,omitempty"` // a version of the job is tagged by us

	// Quiet is nil until a step is reported, and in pools without idle_after.
	Quiet *Quiet `json:"quiet,omitempty"`
	// IdleAt is the version of the job that was to be suspended because it was idle, or 0 if
	// the job may run.
	IdleAt uint64 `json:"idle_at,omitempty"`

	// Not saved.
	PendingSince time.Time `json:"-"` // when workers began to wait for a place
	Size         int       `json:"-"` // of the ring, in slots
	Loss         *float64  `json:"-"`
	Adaptive     *Adaptive `json:"-"` // as last reported
	heard        bool      // the training has reported progress since the job had no workers
	lastSeen     time.Time
	where        Where  // as Nomad reports
	settled      Where  // at the last progress report; zero if the ring was not of these workers
	stay         uint64 // counts changes of the ring and of its place
	tenure       tenure
	wrote        []written
}

// Gap is one resize as the workers saw it, in slots.
type Gap struct {
	From    int      `json:"from"`
	To      int      `json:"to"`
	Seconds *float64 `json:"seconds,omitempty"` // in which no slot trained; nil: unknown
	Lost    *float64 `json:"lost,omitempty"`    // steps that were repeated; nil: unknown
}

// KnownSeconds returns the durations of the gaps, without unknown ones.
func KnownSeconds(gaps []Gap) (known []float64) {
	for _, g := range gaps {
		if g.Seconds != nil {
			known = append(known, *g.Seconds)
		}
	}
	return known
}

// Limits of what is remembered of one job.
const (
	measurementsLimit = 32
	gapsLimit         = 10
)

// Observation is the current state of a job in Nomad.
type Observation struct {
	Created   uint64 // index of the job's creation: a different index means a different job
	Version   uint64
	Changed   uint64 // JobModifyIndex
	Submitted time.Time
	Batch     bool // a batch job ends when a worker completes
	Stopped   bool
	// Completed is the index at which a worker last completed by itself, 0 if none has.
	Completed uint64
	Counts    map[string]int // workers asked for, by group
	Running   int            // workers that exist and are not being stopped
	// Spares is how many of Counts are spares, by group, and SparesRunning how many of Running
	// count as such.
	Spares        map[string]int
	SparesRunning int
	Slots         int       // of one unit
	Unit          int       // workers of one unit: 1 unless the job's groups are in a ratio; 0 means 1
	InRatio       int       // slots that Running hold, if the groups are in a ratio
	Whole         bool      // its minimum has workers, in each group
	Oldest        time.Time // creation of the oldest known worker
	Where         Where     // place of the workers, if the pool has a topology
}

// Training returns how many workers exist that are no spares.
func (o *Observation) Training() int { return o.Running - o.SparesRunning }

// SlotsOf returns the slots of a number of the job's workers; of a gang, in whole units.
func (o *Observation) SlotsOf(workers int) int { return workers * o.Slots / max(1, o.Unit) }

// attains returns the slots whose use counts as attained service.
func (o *Observation) attains() float64 {
	if o.Unit > 1 {
		return float64(o.InRatio) // the units may not be whole
	}
	return float64(o.SlotsOf(o.Training()))
}

// newJob begins a history. The past of a job with older workers is estimated.
func newJob(o *Observation, now time.Time) *Job {
	j := &Job{Created: o.Created, FirstSeen: now, Submitted: o.Submitted, Counts: maps.Clone(o.Counts)}
	if o.Oldest.IsZero() || !o.Oldest.Before(now) {
		return j
	}
	j.FirstSeen = o.Oldest
	if o.Oldest.Before(j.Submitted) {
		j.Submitted = o.Oldest
	}
	if o.Running > 0 {
		j.FirstStart = o.Oldest
		j.RunTime = now.Sub(o.Oldest).Seconds()
		j.Attained = j.RunTime * o.attains()
		j.Had = map[int]float64{o.Training(): j.RunTime}
	}
	return j
}

// training returns Counts without spares.
func (o *Observation) training() map[string]int {
	out := maps.Clone(o.Counts)
	for group, n := range o.Spares {
		out[group] -= n
	}
	return out
}

// observe brings the history up to date with what Nomad reports. dt is the time since the
// last observation. It returns the history of the job's next life if that has begun, else
// j.
func (j *Job) observe(o *Observation, now time.Time, dt time.Duration) *Job {
	j.Whole = j.Whole || o.Whole
	if o.Running == 0 {
		j.Quiet, j.heard = nil, false // its next start begins with new agents
	}
	if o.Running > 0 {
		if j.FirstStart.IsZero() {
			j.FirstStart = now
			if !o.Oldest.IsZero() && o.Oldest.Before(now) {
				j.FirstStart = o.Oldest
			}
		}
		j.RunTime += dt.Seconds()
		j.Attained += dt.Seconds() * o.attains()
	}
	count := 0
	for group, n := range o.Counts {
		count += n - o.Spares[group]
	}
	switch {
	case o.Training() >= count:
		j.PendingSince = time.Time{}
	case j.PendingSince.IsZero():
		j.PendingSince = now
	}
	j.LastChange = earlier(j.LastChange, now) // another autoscaler's clock may have been ahead
	j.followMove(o.training(), now)
	if j.StoppedAt > 0 && o.Version > j.StoppedAt && o.Changed != j.LastIndex {
		j.StoppedAt, j.Pardoned = 0, j.RunTime
	}
	if j.IdleAt > 0 && o.Version > j.IdleAt && o.Changed != j.LastIndex {
		j.IdleAt, j.Quiet = 0, nil // its user registered or scaled it
	}
	j = j.freeze(o, now)
	if j.Frozen || o.Stopped {
		j.Move = nil // no write will end it
	}
	j.where = o.Where
	j.see(o.Training(), now)
	j.expire(o.Training(), now)
	return j
}

// Stop records that the job has run for the longest time that its queue allows, and must
// have no workers. It may run again after its user has registered or scaled it.
func (j *Job) Stop(version uint64) {
	if j.StoppedAt == 0 {
		j.StoppedAt = version
	}
}

// freeze records a completion. It returns the history of the next life if the job was
// registered again after a completion, else j.
func (j *Job) freeze(o *Observation, now time.Time) *Job {
	if !o.Batch {
		return j
	}
	if j.Frozen && o.Version > j.FrozenAt && o.Changed != j.LastIndex {
		// A user registered or scaled the completed job again.
		j = &Job{Created: j.Created, FirstSeen: now, Submitted: o.Submitted, Epoch: o.Completed, Counts: j.Counts, LastIndex: j.LastIndex, Tagged: j.Tagged}
	}
	if !j.Frozen && o.Completed > j.Epoch {
		j.Frozen, j.FrozenAt, j.Completed = true, o.Version, now
	}
	return j
}
