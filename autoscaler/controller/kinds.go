// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Kind is what is remembered of jobs of one kind, for longer than of each of
// them: how they scale, so that the next run need not find it out by resizes.
type Kind struct {
	Shape policy.Shape `json:"shape"`
	Used  time.Time    `json:"used"` // the day a job of it was last there
	// Futile are the sizes that turned out no faster than a smaller one.
	Futile map[int]Lessons `json:"futile,omitempty"`
}

// Lessons are the measurements of a size that were not in its favour, one after
// the other.
type Lessons struct {
	Times int       `json:"times"`
	Last  time.Time `json:"last"`
}

const (
	// kindsLimit bounds how many kinds are remembered; those not used for
	// longest go first.
	kindsLimit = 500
	forgetKind = 90 * 24 * time.Hour

	// taughtSteps is how many steps at a size teach others of the kind. The
	// first steps of a ring are slower than the rest.
	taughtSteps = 16

	// kindTrust is what trust is for a single job: for how long a kind believes
	// that growing to a size is futile, since none of its jobs would try.
	kindTrust = 24 * time.Hour
)

func kindKey(k planner.JobKey, f *cluster.Facts) string { return k.Namespace + "/" + f.Spec.Kind }

// extend is a job's curve with what others of its kind showed, but for the
// sizes about which the job's own times are in doubt; k may be nil.
func (k *Kind) extend(points []policy.Point, doubted []int) policy.Curve {
	c := policy.NewCurve(points...)
	if k == nil {
		return c
	}
	shape := k.Shape
	if len(doubted) > 0 {
		shape = shape.Without(doubted...)
	}
	return shape.Extend(c)
}

// doubt gives up what has spoken against growing for long enough.
func (k *Kind) doubt(now time.Time) {
	for _, size := range k.Shape.Futile() {
		switch l := k.Futile[size]; {
		case l.Times == 0: // of an older version
			k.speaks(size, now)
		case now.Sub(l.Last) > longer(kindTrust, l.Times):
			k.Shape = k.Shape.Without(size)
		}
	}
}

// speaks counts a lesson against a size.
func (k *Kind) speaks(size int, now time.Time) {
	if k.Futile == nil {
		k.Futile = map[int]Lessons{}
	}
	k.Futile[size] = Lessons{Times: k.Futile[size].Times + 1, Last: now}
}

// teach takes in the sizes of a job at which it has now made enough steps,
// and before had not.
func (l *Ledger) teach(kind string, before, after []policy.Point, now time.Time) {
	known := func(p policy.Point) bool { return p.Samples >= taughtSteps }
	var sure []policy.Point
	for _, p := range after {
		if known(p) {
			sure = append(sure, p)
		}
	}
	if len(sure) < 2 {
		return // one size says nothing of the shape
	}
	curve := policy.NewCurve(sure...)
	for _, p := range sure {
		if slices.ContainsFunc(before, func(q policy.Point) bool { return q.Size == p.Size && known(q) }) {
			continue
		}
		k := l.Kinds[kind]
		if k == nil {
			k = &Kind{Used: day(now)}
			l.Kinds[kind] = k
		}
		k.learn(curve, p.Size, now)
	}
}

// learn takes in a size of a job's curve.
func (k *Kind) learn(c policy.Curve, size int, now time.Time) {
	k.Shape.Learn(c, size)
	if slices.Contains(k.Shape.Futile(), size) {
		k.speaks(size, now)
	} else {
		delete(k.Futile, size)
	}
}

// keepKinds notes which kinds are in use and forgets old ones.
func (l *Ledger) keepKinds(v *cluster.View, now time.Time) {
	for i := range v.Jobs {
		if k := l.Kinds[kindKey(v.Jobs[i].Key, &v.Facts[i])]; k != nil {
			k.Used = day(now)
		}
	}
	var names []string
	for name, k := range l.Kinds {
		if now.Sub(k.Used) > forgetKind {
			delete(l.Kinds, name)
			continue
		}
		k.doubt(now)
		names = append(names, name)
	}
	if len(names) <= kindsLimit {
		return
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := l.Kinds[b].Used.Compare(l.Kinds[a].Used); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, name := range names[kindsLimit:] {
		delete(l.Kinds, name)
	}
}

// day leaves the time of day out, so that a kind in use is not saved anew all
// the time.
func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
