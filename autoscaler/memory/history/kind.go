// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Kind holds what is remembered of jobs of one kind, beyond the end of each job: how they
// scale, so that the next run need not find it out by resizes.
type Kind struct {
	Shape speedup.Shape `json:"shape"`
	Used  time.Time     `json:"used"` // the day on which a job of the kind last existed
	// NonImproving are the sizes that were no faster than a smaller one.
	NonImproving map[int]Trials `json:"non_improving,omitempty"`
	// Placed compares step times by how far apart the workers are. Only times of the same
	// size are comparable.
	Placed []migrate.Point `json:"placed,omitempty"`
	// Lengths holds the work of the last complete jobs of the kind, in seconds on one
	// worker, newest last.
	Lengths []float64 `json:"lengths,omitempty"`
	// Services holds the attained service of the last completed jobs of the kind, in
	// slot-seconds, newest last.
	Services []float64 `json:"services,omitempty"`
	// Adapting lists the queues whose last job of the kind adapted its batch.
	Adapting []string `json:"adapting,omitempty"`
	// Tries counts the placements that its jobs have tried; see migrate.Sensitivity.
	Tries int `json:"tries,omitempty"`

	alike *length.Sample // describes Services; nil until needed
}

// Trials counts successive measurements in which growing to a size did not help.
type Trials struct {
	Times int       `json:"times"`
	Last  time.Time `json:"last"`
}

const (
	// kindsLimit bounds how many kinds are remembered. Above it, the namespace with the
	// most kinds loses the one that has not been used for longest. In each namespace,
	// leastKinds stay: what all its jobs have in common, and one kind. Otherwise, if there
	// were many namespaces, those whose names are last would never learn anything. For the
	// same reason, what all jobs of a node pool have in common stays.
	kindsLimit = 500
	leastKinds = 2
	kindTTL    = 90 * 24 * time.Hour

	// learnedSteps is how many steps a job must have made at a size before its kind learns
	// from them: the first steps of a ring are slower than the rest.
	learnedSteps = 16

	// kindTrialTTL is the measurementTTL of a kind: how long it believes that growing to a
	// size does not help. Until then, none of its jobs would try.
	kindTrialTTL = 24 * time.Hour
)

// extend returns a job's curve, capped at linear speedup and extended with what others of
// its kind showed, except at sizes whose own times have expired. k may be nil.
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

// expire forgets measurements that have argued against growth for long enough.
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

// addTrial counts a measurement in which growing to a size did not help.
func (k *Kind) addTrial(size int, now time.Time) {
	if k.NonImproving == nil {
		k.NonImproving = map[int]Trials{}
	}
	k.NonImproving[size] = Trials{Times: k.NonImproving[size].Times + 1, Last: now}
}

// learn adds the measurement of a job's curve at a size.
func (k *Kind) learn(c speedup.Curve, size int, now time.Time) {
	k.Shape.Learn(c, size)
	if slices.Contains(k.Shape.NonImproving(), size) {
		k.addTrial(size, now)
	} else {
		delete(k.NonImproving, size)
	}
}

// learnKind lets a kind learn the sizes at which a job has just made enough steps.
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

// kind returns what is remembered of a kind. If it is new, kind begins with an empty
// Kind.
func (h *History) kind(name string, now time.Time) *Kind {
	k := h.Kinds[name]
	if k == nil {
		k = &Kind{Used: day(now)}
		h.Kinds[name] = k
	}
	return k
}

// pruneKinds records which kinds are in use and forgets old ones.
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
	rank := h.sortFairly(names)
	for _, name := range names[kindsLimit:] {
		if rank[name] >= leastKinds && Namespace(name) != "" {
			delete(h.Kinds, name)
		}
	}
}

// sortFairly sorts kinds by the number of kinds in the same namespace that were used more
// recently, which it returns. Any prefix of the kinds then has a fair share of each namespace.
func (h *History) sortFairly(names []string) (rank map[string]int) {
	later := func(a, b string) int {
		return cmp.Or(h.Kinds[b].Used.Compare(h.Kinds[a].Used), strings.Compare(a, b))
	}
	slices.SortFunc(names, later)
	rank, of := make(map[string]int, len(names)), map[string]int{}
	for _, name := range names {
		rank[name] = of[Namespace(name)]
		of[Namespace(name)]++
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(rank[a]-rank[b], later(a, b)) })
	return rank
}

// day drops the time of day, so that a kind in use is not saved more than once a day.
func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
