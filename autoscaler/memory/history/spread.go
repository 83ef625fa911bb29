// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
)

// Where is the placement of a job's workers: how many there are, and how far apart. Without
// workers it is unknown: some have no place yet, or are leaving theirs.
type Where struct {
	Workers int
	migrate.Crossing
}

// Placed is the measured time of a step at one number of workers and one crossing.
type Placed struct {
	migrate.Crossing
	Measurement
}

// Bounds of the times by placement.
const (
	placedLimit     = 24 // times of one job
	kindPlacedLimit = 96 // of one kind
	maxRatio        = 1e6
)

// settle records whether a report is about the same ring in the same placement as the last
// one; formed is true if a ring has formed in between. Only if both are the same, the steps
// in between were made in that placement and are not the first ones of a ring.
func (j *Job) settle(size, slots int, formed bool) {
	at := j.where
	if at.Workers*slots != size {
		at = Where{} // the ring does not have the workers that Nomad reports
	}
	if j.stay == 0 || formed || at != j.settled {
		j.stay++
	}
	j.settled = at
}

// place adds steps that were made in the present placement. It returns the measurement of
// that placement, and the factor by which the training has become slower there.
func (j *Job) place(made steps, now time.Time) (m *Measurement, drift float64) {
	at := j.settled
	i := slices.IndexFunc(j.Placed, func(p Placed) bool { return p.Size == at.Workers && p.Crossing == at.Crossing })
	if i < 0 {
		if len(j.Placed) >= placedLimit {
			j.forgetOldest()
		}
		i = len(j.Placed)
		p := Placed{Crossing: at.Crossing}
		p.Size = at.Workers
		j.Placed = append(j.Placed, p)
	}
	m = &j.Placed[i].Measurement
	m.At = now
	return m, m.average(made.mean, made.n)
}

// forgetOldest drops the oldest of the times with too few steps or, if there are none, the
// oldest of all.
func (j *Job) forgetOldest() {
	useful := func(p Placed) int {
		if p.Samples < learnedSteps {
			return 0
		}
		return 1
	}
	oldest := slices.MinFunc(j.Placed, func(a, b Placed) int { return cmp.Or(useful(a)-useful(b), a.At.Compare(b.At)) })
	j.Placed = slices.DeleteFunc(j.Placed, func(p Placed) bool { return p.Size == oldest.Size && p.Crossing == oldest.Crossing })
}

// Sensitivity returns how the time of a step of the job depends on the placement of its
// workers, from placements with enough measured steps.
func (j *Job) Sensitivity() *migrate.Sensitivity {
	s := &migrate.Sensitivity{}
	for i := range j.Placed {
		if p := &j.Placed[i]; p.Samples >= learnedSteps {
			s.Learn(migrate.Point{Size: p.Size, Crossing: p.Crossing, StepTime: p.StepTime})
		}
	}
	return s
}

// learnPlaced adds a job's times by placement to those of its kind, and counts the job's
// tries.
func (h *History) learnPlaced(kind string, before, after *migrate.Sensitivity, now time.Time) {
	if k := h.Kinds[kind]; k != nil {
		alike := &migrate.Sensitivity{Points: k.Placed}
		for _, p := range after.Points {
			k.Tries = min(k.Tries+before.Try(p, alike), migrate.EnoughTries) // more make no difference
		}
	}
	for of := range after.BySize() {
		if len(of) > 1 { // one time is no ratio
			h.kind(kind, now).learnRatios(of)
		}
	}
}

// learnRatios adds the times of a job, all of one size. Times of different jobs do not
// compare, so they are scaled by the crossings that both have. learnRatios replaces Placed,
// because present rounds read the old one.
func (k *Kind) learnRatios(of []migrate.Point) {
	placed := slices.Clone(k.Placed)
	var known []migrate.Point
	for _, q := range placed {
		if q.Size == of[0].Size && within(q.StepTime, 1/maxRatio, maxRatio) {
			known = append(known, q)
		}
	}
	scale, ok := migrate.Scale(known, of)
	if !ok {
		return
	}
	for _, p := range of {
		p.StepTime *= scale
		if !within(p.StepTime, 1/maxRatio, maxRatio) {
			continue
		}
		i := slices.IndexFunc(placed, func(q migrate.Point) bool { return q.Size == p.Size && q.Crossing == p.Crossing })
		switch {
		case i < 0:
			placed = append(placed, p)
		case !(math.Abs(placed[i].StepTime-p.StepTime) <= minChange*p.StepTime): // less is not worth saving
			placed[i] = p
		}
	}
	k.Placed = placed[max(0, len(placed)-kindPlacedLimit):]
}

// Sensitivities returns how the time of a step depends on the placement of workers, by the
// measurements of the job and by those of its kind. Neither changes later.
func (h *History) Sensitivities(j *Job, kind string) (own, alike *migrate.Sensitivity) {
	own, alike = j.Sensitivity(), &migrate.Sensitivity{}
	if k := h.Kinds[kind]; k != nil {
		alike.Points, alike.Tries = k.Placed, k.Tries
	}
	return own, alike
}
