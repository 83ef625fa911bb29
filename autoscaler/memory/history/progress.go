// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// Progress is the report of an agent of the driver about a job's training.
type Progress struct {
	// The agent that answers. Agents of older versions do not name their allocation.
	Job       string `json:"job"`
	Namespace string `json:"namespace"`
	AllocID   string `json:"alloc_id"`

	Size        int                 `json:"size"` // slots training together
	Ranks       []Rank              `json:"ranks"`
	Step        float64             `json:"step"`
	Samples     float64             `json:"samples"`
	TotalSteps  float64             `json:"total_steps"`
	Loss        *float64            `json:"loss"`
	Adaptive    *Adaptive           `json:"adaptive"`     // nil if the training does not adapt its batch
	StepSeconds map[string]StepTime `json:"step_seconds"` // by size
	Resizes     []Resize            `json:"resizes"`
	Complete    bool                `json:"complete"`
	SparesReady int                 `json:"spares_ready"`
	TakesSpares bool                `json:"takes_spares"` // the driver keeps the spares that a scaling event states
	KeepsBatch  bool                `json:"keeps_batch"`  // the driver knows that the job must not adapt its batch

	Straggler *Straggler `json:"straggler"` // nil if no rank makes the others wait
	Stall     *Stall     `json:"stall"`     // the last one; nil if there was none

	// These are only shown. No decision depends on them.
	Phase string `json:"phase"` // waiting, training, resizing or finished
	Hold  string `json:"hold"`  // why no new ring may form now
}

// Straggler is a rank that arrives last in most of the recent steps.
type Straggler struct {
	Rank    int     `json:"rank"`
	AllocID string  `json:"alloc_id"`
	Share   float64 `json:"share"`          // of the recent steps
	Behind  float64 `json:"behind_seconds"` // after the median of the other ranks
}

// Valid reports whether the numbers are possible.
func (s *Straggler) Valid() bool {
	return within(s.Share, 0, 1) && within(s.Behind, 0, maxSeconds)
}

// Stall states that a ring has made no step for too long. It may have gone on since.
type Stall struct {
	Generation uint64  `json:"generation"` // of the ring
	Size       int     `json:"size"`       // slots in the ring
	Seconds    float64 `json:"seconds"`
	Time       float64 `json:"time"` // when it was noticed, in Unix seconds; 0 if unknown
	// Stacks is what the ranks did before the ring was broken, nil if unknown.
	Stacks *stacks.Summary `json:"stacks"`
}

// Valid reports whether the duration and the time are possible.
func (s *Stall) Valid() bool {
	return within(s.Seconds, 0, maxSeconds) && within(s.Time, 0, maxTime)
}

// Rank is one process of the ring.
type Rank struct {
	Rank    int    `json:"rank"`
	AllocID string `json:"alloc_id"`
	Slot    int    `json:"slot"` // of the allocation
}

// RankOf returns the rank of each allocation that has exactly one.
func (p *Progress) RankOf() map[string]int {
	out, several := make(map[string]int, len(p.Ranks)), map[string]bool{}
	for _, r := range p.Ranks {
		if _, ok := out[r.AllocID]; ok {
			several[r.AllocID] = true
		}
		out[r.AllocID] = r.Rank
	}
	maps.DeleteFunc(out, func(alloc string, _ int) bool { return alloc == "" || several[alloc] })
	return out
}

// StepTime is the measured time of one global step at one size.
type StepTime struct {
	Mean float64 `json:"mean"` // seconds
	N    int     `json:"n"`
	// Samples is how many samples such a step takes, 0 if the script does not report them.
	Samples float64 `json:"samples"`
}

func (t StepTime) hasSamples() bool { return within(t.Samples, 1e-3, maxSteps) }

// Resize is one change of the ring as the workers saw it.
type Resize struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Cause string `json:"cause"` // start, resize, failure
	// GapSeconds and LostSteps are nil if the workers do not know them.
	GapSeconds *float64 `json:"gap_seconds"`
	LostSteps  *float64 `json:"lost_steps"`
	Time       float64  `json:"time"` // Unix seconds at which the new ring was formed
}

// Limits of believable reports. They are beyond any real training, yet small enough for
// sums and quotients of a job's numbers to stay finite. JSON has no infinity, and one in
// a job's data would spoil the status and the saved history of all jobs.
const (
	maxSteps    = 1e12
	maxSeconds  = 1e9  // 30 years
	maxTime     = 1e11 // Unix seconds: the year 5138
	minStepTime = 1e-9
)

// within reports whether f is from least to most. It returns false for NaN.
func within(f, least, most float64) bool { return f >= least && f <= most }

// advance updates the progress of the training. If the training reports its samples, work
// is counted in steps of one batch: the batch of the first ring for which it is known. If
// each rank has a fixed batch, a step does more work the more ranks there are, and a
// policy that compared the times of such steps would see no gain. If the training adapts its
// batch, work is counted in steps of its initial batch.
func (j *Job) advance(p *Progress) {
	now := p.StepSeconds[strconv.Itoa(p.Size)]
	j.hearBatch(p)
	if j.Batch == 0 && now.hasSamples() {
		j.Batch, j.Measurements, j.Placed, j.Total = now.Samples, nil, nil, 0
	}
	done, total := p.Step, p.TotalSteps
	if j.Batch > 0 {
		if !(p.Samples > 0) {
			return
		}
		done, total = p.Samples/j.Batch, 0
		switch {
		case j.Adapts:
			total = p.TotalSteps // counted in steps with the initial batch
		case now.hasSamples() && p.TotalSteps > 0:
			total = done + (p.TotalSteps-p.Step)*now.Samples/j.Batch
		}
	}
	if within(done, 0, maxSteps) {
		j.Done = done
	}
	if total > 0 && within(total, 0, maxSteps) {
		j.Total = total
	}
}

// written is a resize that an autoscaler wrote.
type written struct {
	workers int // the new size
	at      time.Time
}

// writtenTTL is how long after a write its resize may happen.
const writtenTTL = time.Hour

// Wrote records that this autoscaler resized the job to the given number of workers. The
// cost of a resize is learned only from such resizes.
func (j *Job) Wrote(workers int, now time.Time) {
	j.wrote = append(j.wrote[max(0, len(j.wrote)+1-gapsLimit):], written{workers, now})
}

// cost remembers the duration of a resize if this autoscaler wrote it, and its gap is
// known and fits into the time since the write.
func (j *Job) cost(r Resize, slots int, now time.Time) {
	i := slices.IndexFunc(j.wrote, func(w written) bool { return w.workers*slots == r.To && now.Sub(w.at) < writtenTTL })
	if i < 0 || r.Cause != "resize" || r.GapSeconds == nil || *r.GapSeconds > now.Sub(j.wrote[i].at).Seconds() {
		return
	}
	j.wrote = slices.Clone(j.wrote[i+1:]) // the ring may skip sizes that were written before this one
	j.Costs = append(j.Costs, *r.GapSeconds)
	j.Costs = slices.Clone(j.Costs[max(0, len(j.Costs)-gapsLimit):])
}

// addGaps adds the new resizes, and returns them without starts.
func (j *Job) addGaps(resizes []Resize, slots int, now time.Time) (added []Resize) {
	for _, r := range resizes {
		// Each report repeats the latest resizes.
		if r.Time <= j.LastGap || !within(r.Time, 0, float64(now.UnixMilli())/1000+24*3600) || r.GapSeconds != nil && !within(*r.GapSeconds, 0, maxSeconds) {
			continue
		}
		j.LastGap = r.Time
		if r.Cause == "start" {
			continue
		}
		if r.LostSteps != nil {
			lost := min(max(0, *r.LostSteps), maxSteps)
			r.LostSteps = &lost
			j.Lost = min(j.Lost+lost, maxSteps)
		} else {
			j.Uncounted = true
		}
		j.cost(r, slots, now)
		j.Gaps = append(j.Gaps, Gap{From: r.From, To: r.To, Seconds: r.GapSeconds, Lost: r.LostSteps})
		added = append(added, r)
	}
	j.Gaps = j.Gaps[max(0, len(j.Gaps)-gapsLimit):]
	return added
}
