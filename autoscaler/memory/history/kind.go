// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Kind is what is remembered of jobs of one kind, for longer than of each of
// them: how they scale, so that the next run need not find it out by resizes.
type Kind struct {
	Shape speedup.Shape `json:"shape"`
	Used  time.Time     `json:"used"` // the day a job of it was last there
	// NonImproving are the sizes that were no faster than a smaller one.
	NonImproving map[int]Trials `json:"non_improving,omitempty"`
	// Placed is how much longer steps take where workers are further apart: times
	// of one size are multiples of one another, and of nothing else.
	Placed []migrate.Point `json:"placed,omitempty"`
	// Tries counts what its jobs have tried; see migrate.Sensitivity.
	Tries int `json:"tries,omitempty"`
}

// Trials are the measurements of a size that spoke against growing to it, one
// after the other.
type Trials struct {
	Times int       `json:"times"`
	Last  time.Time `json:"last"`
}

const (
	// kindsLimit bounds how many kinds are remembered; of the namespace that has
	// most, the one not used for longest goes first.
	kindsLimit = 500
	kindTTL    = 90 * 24 * time.Hour

	// learnedSteps is how many steps at a size others of the kind learn from. The
	// first steps of a ring are slower than the rest.
	learnedSteps = 16

	// kindTrialTTL is what measurementTTL is for a single job: for how long a
	// kind believes that growing to a size does not improve, since none of its
	// jobs would try.
	kindTrialTTL = 24 * time.Hour
)

// extend returns a job's curve, as far as it is believed, with what others of its
// kind showed except at the sizes where the job's own times have expired; k may be
// nil.
func (k *Kind) extend(points []speedup.Point, expired []int) speedup.Curve {
	c := speedup.NewCurve(points...)
	if k == nil {
		return c.Sublinear()
	}
	shape := k.Shape
	if len(expired) > 0 {
		shape = shape.Without(expired...)
	}
	return shape.Extend(c).Sublinear()
}

// expire gives up what has spoken against growing for long enough.
func (k *Kind) expire(now time.Time) {
	for _, size := range k.Shape.NonImproving() {
		switch t := k.NonImproving[size]; {
		case t.Times == 0: // of an older version
			k.addTrial(size, now)
		case now.Sub(t.Last) > ttl(kindTrialTTL, t.Times):
			k.Shape = k.Shape.Without(size)
		}
	}
}

// addTrial counts a measurement that speaks against a size.
func (k *Kind) addTrial(size int, now time.Time) {
	if k.NonImproving == nil {
		k.NonImproving = map[int]Trials{}
	}
	k.NonImproving[size] = Trials{Times: k.NonImproving[size].Times + 1, Last: now}
}

// learn takes in a size of a job's curve.
func (k *Kind) learn(c speedup.Curve, size int, now time.Time) {
	k.Shape.Learn(c, size)
	if slices.Contains(k.Shape.NonImproving(), size) {
		k.addTrial(size, now)
	} else {
		delete(k.NonImproving, size)
	}
}

// learnKind takes in the sizes of a job at which it has now made enough steps,
// and before had not.
func (h *History) learnKind(kind string, before, after []speedup.Point, now time.Time) {
	enough := func(p speedup.Point) bool { return p.Samples >= learnedSteps }
	var known []speedup.Point
	for _, p := range after {
		if enough(p) {
			known = append(known, p)
		}
	}
	if len(known) < 2 {
		return // one size has no shape
	}
	curve := speedup.NewCurve(known...).Sublinear()
	for _, p := range known {
		if slices.ContainsFunc(before, func(q speedup.Point) bool { return q.Size == p.Size && enough(q) }) {
			continue
		}
		h.kind(kind, now).learn(curve, p.Size, now)
	}
}

// kind is what is remembered of a kind, from now on where that was nothing.
func (h *History) kind(name string, now time.Time) *Kind {
	k := h.Kinds[name]
	if k == nil {
		k = &Kind{Used: day(now)}
		h.Kinds[name] = k
	}
	return k
}

// pruneKinds notes which kinds are in use and forgets old ones.
func (h *History) pruneKinds(inUse []string, now time.Time) {
	for _, name := range inUse {
		if k := h.Kinds[name]; k != nil {
			k.Used = day(now)
		}
	}
	var names []string
	for name, k := range h.Kinds {
		if now.Sub(k.Used) > kindTTL {
			delete(h.Kinds, name)
			continue
		}
		k.expire(now)
		names = append(names, name)
	}
	if len(names) <= kindsLimit {
		return
	}
	for _, name := range h.leastKinds(names)[kindsLimit:] {
		delete(h.Kinds, name)
	}
}

// leastKinds sorts kinds by how many of their namespace were used later, so that
// each namespace's share is fair in whatever part is kept.
func (h *History) leastKinds(names []string) []string {
	later := func(a, b string) int {
		return cmp.Or(h.Kinds[b].Used.Compare(h.Kinds[a].Used), strings.Compare(a, b))
	}
	slices.SortFunc(names, later)
	rank, of := map[string]int{}, map[string]int{}
	for _, name := range names {
		rank[name] = of[Namespace(name)]
		of[Namespace(name)]++
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(rank[a]-rank[b], later(a, b)) })
	return names
}

// day leaves the time of day out, so that a kind in use is not saved again all
// the time.
func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
