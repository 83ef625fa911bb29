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

// Where is where the workers of a job are: how many, and how far apart. No
// workers is unknown: some have no place yet, or are leaving theirs.
type Where struct {
	Workers int
	migrate.Crossing
}

// Placed is what is known of the time of a step at one number of workers and one
// crossing.
type Placed struct {
	migrate.Crossing
	Measurement
}

// Bounds of what is remembered of where steps are slow.
const (
	placedLimit     = 24 // times of one job
	kindPlacedLimit = 96 // of one kind
	maxRatio        = 1e6
)

// settle notes whether a report is of the same ring at the same place as the one
// before: formed is true where the ring was formed since. Steps made meanwhile
// are of that place only then, and not the first ones of a ring.
func (j *Job) settle(size, slots int, formed bool) {
	at := j.where
	if at.Workers*slots != size {
		at = Where{} // the ring is not of the workers that Nomad reports
	}
	if j.stay == 0 || formed || at != j.settled {
		j.stay++
	}
	j.settled = at
}

// place takes in steps that were made where the job is now. It returns the
// measurement of that place, and by how much the training has got slower or faster
// there.
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

// forgetOldest makes room: of the times that are no use yet, or else of all, the oldest
// goes.
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

// Sensitivity is how the time of a step of the job depends on where its workers
// are, as far as enough steps were measured.
func (j *Job) Sensitivity() *migrate.Sensitivity {
	s := &migrate.Sensitivity{}
	for i := range j.Placed {
		if p := &j.Placed[i]; p.Samples >= learnedSteps {
			s.Learn(migrate.Point{Size: p.Size, Crossing: p.Crossing, StepTime: p.StepTime})
		}
	}
	return s
}

// learnPlaced takes in what a job's own times show of where its kind is slow, and
// counts what it has tried.
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

// learnRatios takes in how the times of a job compare, all of one size: those of
// different jobs do not, and are related by what they have in common. Placed is
// replaced: rounds under way read the old one.
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

// Sensitivities are how the time of a step depends on where workers are: as the
// job was measured, and as others of its kind were, for what it was not. Neither
// changes any more.
func (h *History) Sensitivities(j *Job, kind string) (own, alike *migrate.Sensitivity) {
	own, alike = j.Sensitivity(), &migrate.Sensitivity{}
	if k := h.Kinds[kind]; k != nil {
		alike.Points, alike.Tries = k.Placed, k.Tries
	}
	return own, alike
}
