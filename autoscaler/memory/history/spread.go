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

// Where describes the placement of a job's workers: their number, and how far apart they
// are. Workers is 0 if the placement is unknown, because some workers have no place yet or
// are being stopped.
type Where struct {
	Workers int
	migrate.Crossing
}

// Placed is the known step time of a number of workers at one crossing.
type Placed struct {
	migrate.Crossing
	Measurement
}

// Limits of the step times that are remembered by place.
const (
	placedLimit     = 24 // times of one job
	kindPlacedLimit = 96 // of one kind
	maxRatio        = 1e6
)

// settle records the place of the ring in a report. A new stay begins if the ring was
// formed since the last report, or if its place differs. Steps count for a place only
// within one stay, which excludes the first steps of a ring.
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

// place adds steps that were made at the job's current place. It returns the measurement
// of that place, and its drift as update does.
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

// forgetOldest removes the oldest time that is not useful yet, or the oldest of all if
// every time is useful.
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

// Sensitivity returns how the job's step time depends on the placement of its workers, as
// far as enough steps were measured.
func (j *Job) Sensitivity() *migrate.Sensitivity {
	s := &migrate.Sensitivity{}
	for i := range j.Placed {
		if p := &j.Placed[i]; p.Samples >= learnedSteps {
			s.Learn(migrate.Point{Size: p.Size, Crossing: p.Crossing, StepTime: p.StepTime})
		}
	}
	return s
}

// learnPlaced lets a kind learn from a job's times which placements are slow, and counts
// the job's tries.
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

// learnRatios learns the ratios between a job's times of one size. Times of different
// jobs are not comparable, so they are scaled by the places that both have. k.Placed is
// replaced and not modified, because rounds under way read the old slice.
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
		case !(math.Abs(placed[i].StepTime-p.StepTime) <= minChange*p.StepTime): // smaller changes are not worth saving
			placed[i] = p
		}
	}
	k.Placed = placed[max(0, len(placed)-kindPlacedLimit):]
}

// Sensitivities returns how step time depends on the placement of workers: own as
// measured on the job, alike as measured on its kind. Neither result changes later.
func (h *History) Sensitivities(j *Job, kind string) (own, alike *migrate.Sensitivity) {
	own, alike = j.Sensitivity(), &migrate.Sensitivity{}
	if k := h.Kinds[kind]; k != nil {
		alike.Points, alike.Tries = k.Placed, k.Tries
	}
	return own, alike
}
