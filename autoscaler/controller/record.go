// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Record is what is remembered of one job. Its exported fields are saved.
type Record struct {
	Created    uint64         `json:"created"` // index of the job's creation
	FirstSeen  time.Time      `json:"first_seen"`
	Submitted  time.Time      `json:"submitted,omitzero"` // first of this life: scaling moves Nomad's
	FirstStart time.Time      `json:"first_start,omitzero"`
	LastChange time.Time      `json:"last_change,omitzero"` // of the count
	Attained   float64        `json:"attained"`             // slot-seconds
	RunTime    float64        `json:"run_time"`             // seconds with workers
	Resizes    int            `json:"resizes"`
	Counts     map[string]int `json:"counts,omitempty"` // as last seen
	LastIndex  uint64         `json:"last_index,omitempty"`
	HandUntil  time.Time      `json:"hand_until,omitzero"`
	// GrowAfter are the groups in which workers found no place, and until when
	// they do not grow.
	GrowAfter map[string]time.Time `json:"stuck,omitempty"`

	Frozen    bool      `json:"frozen,omitempty"`
	FrozenAt  uint64    `json:"frozen_at,omitempty"` // job version at the completion
	Epoch     uint64    `json:"epoch,omitempty"`     // completions up to this index are of an earlier life
	Completed time.Time `json:"completed,omitzero"`

	Points []Measured `json:"points,omitempty"` // step times
	Batch  float64    `json:"batch,omitempty"`  // samples in the step that work is counted in
	Done   float64    `json:"done,omitempty"`   // global steps
	Total  float64    `json:"total,omitempty"`  // as the training says
	Gaps   []Gap      `json:"gaps,omitempty"`   // the last resizes

	LastGap float64 `json:"last_gap,omitempty"` // time of the last resize that was seen
	Lost    float64 `json:"lost,omitempty"`     // steps, by all of them
	Tagged  bool    `json:"tagged,omitempty"`   // a version of the job is tagged by us

	// Not saved.
	lastSeen     time.Time
	pendingSince time.Time
	keepUntil    time.Time
	retryAt      time.Time
	untagAt      time.Time // not before
	retries      int
	trouble      string
	endpoint     cluster.Endpoint // of the agent that answers for the job
	completeSays time.Time        // until when the training's word that it is complete holds
	size         int              // of the ring
	probed       time.Time
	loss         *float64
}

// Gap is one resize as the workers saw it.
type Gap struct {
	From    int     `json:"from"`
	To      int     `json:"to"`
	Seconds float64 `json:"seconds"`
	Lost    float64 `json:"lost"`
}

// Bounds of what is remembered of one job.
const (
	pointsLimit = 32
	gapsLimit   = 10
)

// observe brings the record up to date with what Nomad says. dt is the time
// since the last observation.
func (r *Record) observe(j *planner.Job, f *cluster.Facts, now time.Time, dt time.Duration) {
	if f.Running > 0 {
		if r.FirstStart.IsZero() {
			r.FirstStart = now
			if !f.Oldest.IsZero() && f.Oldest.Before(now) {
				r.FirstStart = f.Oldest
			}
		}
		r.RunTime += dt.Seconds()
		r.Attained += dt.Seconds() * float64(f.Running*f.Slots)
	}
	if f.Running < j.Count() {
		if r.pendingSince.IsZero() {
			r.pendingSince = now
		}
	} else {
		r.pendingSince = time.Time{}
	}
	r.freeze(f, now)
	r.doubt(f.Running, now)
}

// freeze notices a completion, and a registration after it.
func (r *Record) freeze(f *cluster.Facts, now time.Time) {
	if !f.Batch {
		return
	}
	if r.Frozen && f.Version > r.FrozenAt && f.Changed != r.LastIndex {
		// A user registered or scaled the completed job again: a new life.
		*r = Record{Created: r.Created, FirstSeen: now, Submitted: f.Submitted, Epoch: f.Completed, Counts: r.Counts, LastIndex: r.LastIndex, Tagged: r.Tagged}
	}
	if !r.Frozen && f.Completed > r.Epoch {
		r.Frozen, r.FrozenAt, r.Completed = true, f.Version, now
	}
}

// estimate fills a record for a job that was there before the ledger knew.
func (r *Record) estimate(f *cluster.Facts, now time.Time) {
	if f.Oldest.IsZero() || !f.Oldest.Before(now) {
		return
	}
	if f.Oldest.Before(r.FirstSeen) {
		r.FirstSeen = f.Oldest
	}
	if f.Oldest.Before(r.Submitted) {
		r.Submitted = f.Oldest
	}
	if f.Running > 0 {
		r.FirstStart = f.Oldest
		r.RunTime = now.Sub(f.Oldest).Seconds()
		r.Attained = r.RunTime * float64(f.Running*f.Slots)
	}
}

// deadline is the wanted time of completion; zero is none.
func (r *Record) deadline(s *jobspec.Spec) time.Time {
	if s.DeadlineAfter > 0 {
		return r.Submitted.Add(s.DeadlineAfter)
	}
	return s.Deadline
}

// learn takes over what the training says of itself, and returns the resizes
// that were not known. slots is the number of slots of one worker: the driver
// counts the ring in slots.
func (r *Record) learn(p *cluster.Progress, slots int, now time.Time) (news []cluster.Resize) {
	r.probed, r.size, r.loss = now, p.Size, p.Loss
	r.advance(p)
	for size, t := range p.StepSeconds {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 || n%slots != 0 {
			continue
		}
		r.hear(n/slots, t, now)
	}
	for _, g := range p.Resizes {
		// The list is of the latest only, and the same ones come again.
		if g.Time <= r.LastGap || !within(g.Time, 0, seconds(now)+24*3600) || !within(g.GapSeconds, 0, mostSeconds) {
			continue
		}
		r.LastGap = g.Time
		if g.Cause == "start" {
			continue
		}
		g.LostSteps = min(max(0, g.LostSteps), mostSteps)
		r.Gaps = append(r.Gaps, Gap{From: g.From, To: g.To, Seconds: g.GapSeconds, Lost: g.LostSteps})
		r.Lost = min(r.Lost+g.LostSteps, mostSteps)
		news = append(news, g)
	}
	r.Gaps = r.Gaps[max(0, len(r.Gaps)-gapsLimit):]
	return news
}

// advance takes over how far the training is. Where it tells its samples, work
// is counted in steps of one size, that of the first ring it is known of: ranks
// that have a batch each do more in a step the more they are, and a policy that
// looked at the time of a step alone would see no gain in that.
func (r *Record) advance(p *cluster.Progress) {
	now := p.StepSeconds[strconv.Itoa(p.Size)]
	if r.Batch == 0 && sampled(now) {
		r.Batch, r.Points, r.Total = now.Samples, nil, 0
	}
	done, total := p.Step, p.TotalSteps
	if r.Batch > 0 {
		if !(p.Samples > 0) {
			return
		}
		done, total = p.Samples/r.Batch, 0
		if sampled(now) && p.TotalSteps > 0 {
			total = done + (p.TotalSteps-p.Step)*now.Samples/r.Batch
		}
	}
	if within(done, 0, mostSteps) {
		r.Done = done
	}
	if total > 0 && within(total, 0, mostSteps) {
		r.Total = total
	}
}

// sampled says whether the samples of a step are known.
func sampled(t cluster.StepTime) bool { return within(t.Samples, 1e-3, mostSteps) }

// failed notes that a write failed, and when to try again: soon where Nomad
// did not answer, later where it said no.
func (r *Record) failed(now time.Time, kind cluster.Kind, err error) {
	first, most := time.Second, time.Minute
	if kind == cluster.Away {
		first, most = 250*time.Millisecond, 15*time.Second
	}
	r.retries++
	r.retryAt = now.Add(min(first<<min(r.retries-1, 6), most))
	r.trouble = fmt.Sprintf("%s: %v", kind, err)
}

// Bounds of what is believed of a training: beyond any there is, and yet far
// enough from the largest number that sums and quotients of a job's numbers
// stay finite. JSON has no others, so that one job's would spoil the status and
// the ledger of all.
const (
	mostSteps   = 1e12
	mostSeconds = 1e9 // 30 years
	leastStep   = 1e-9
)

// within is false for what is not a number.
func within(f, least, most float64) bool { return f >= least && f <= most }
