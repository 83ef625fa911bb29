// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

func TestKind_TheNextRunKnowsWhatTheLastFoundOut(t *testing.T) {
	l := New()
	two, four := speedup.Point{Size: 2, StepTime: 1, Samples: 20}, speedup.Point{Size: 4, StepTime: 0.8, Samples: 20}
	few := four
	few.Samples = learnedSteps - 1

	l.learnKind("default/resnet", nil, []speedup.Point{two}, t0)
	must.MapEmpty(t, l.Kinds, must.Sprint("one size has no shape"))
	l.learnKind("default/resnet", []speedup.Point{two}, []speedup.Point{two, few}, t0)
	must.MapEmpty(t, l.Kinds, must.Sprint("too few steps to know"))
	l.learnKind("default/resnet", []speedup.Point{two, few}, []speedup.Point{two, four}, t0)

	saved := New()
	text, err := json.Marshal(l.Kinds)
	must.NoError(t, err)
	must.NoError(t, json.Unmarshal(text, &saved.Kinds))
	kind := saved.Kinds[KindKey(identity.JobKey{Namespace: "default", ID: "resnet/dispatch-1"}, "resnet")]
	slow := kind.extend([]speedup.Point{{Size: 2, StepTime: 10}}, nil)
	must.InDelta(t, 8, slow.Time(4), 1e-9)
	must.Len(t, 1, slow.Points())

	var none *Kind
	plain := none.extend([]speedup.Point{two}, nil)
	must.Eq(t, 2, plain.Largest())
}

func TestKind_OldOnesAreForgotten(t *testing.T) {
	l := New()
	for i := range kindsLimit + 10 {
		l.Kinds[fmt.Sprintf("default/%03d", i)] = &Kind{Used: day(t0.Add(time.Duration(i) * time.Second))}
	}
	l.Kinds["default/used"] = &Kind{Used: day(t0.Add(-100 * 24 * time.Hour))}
	l.Kinds["default/unused"] = &Kind{Used: day(t0.Add(-100 * 24 * time.Hour))}
	l.pruneKinds([]string{KindKey(identity.JobKey{Namespace: "default", ID: "a"}, "used")}, t0.Add(24*time.Hour))
	must.MapLen(t, kindsLimit, l.Kinds)
	must.MapContainsKey(t, l.Kinds, "default/used")
	must.MapNotContainsKey(t, l.Kinds, "default/unused")
}

// TestKind_OneNamespaceForgetsItsOwn has one namespace register many kinds.
func TestKind_OneNamespaceForgetsItsOwn(t *testing.T) {
	l, now := New(), t0
	for i := range 20 {
		l.Kinds[fmt.Sprintf("team-%02d/bert", i)] = &Kind{Used: day(t0)}
	}
	for i := range 2 * kindsLimit {
		if i%100 == 0 {
			now = now.Add(24 * time.Hour)
		}
		l.kind(fmt.Sprintf("hostile/%d", i), now)
		l.pruneKinds(nil, now)
		must.LessEq(t, kindsLimit, len(l.Kinds))
	}
	for i := range 20 {
		must.MapContainsKey(t, l.Kinds, fmt.Sprintf("team-%02d/bert", i))
	}
	must.MapLen(t, kindsLimit, l.Kinds)
	must.MapNotContainsKey(t, l.Kinds, "hostile/0", must.Sprint("its oldest goes first"))
}

// With many namespaces, each keeps what all its jobs have in common, and its last kind.
func TestKind_EachNamespaceKeepsItsLast(t *testing.T) {
	l := New()
	for i := range kindsLimit {
		namespace := fmt.Sprintf("team-%03d/", i)
		for k, name := range []string{"", "new", "old"} {
			l.Kinds[namespace+name] = &Kind{Used: day(t0.Add(time.Duration(-k) * 24 * time.Hour))}
		}
	}
	for i := range 10 {
		l.Kinds[fmt.Sprint("/pool-", i)] = &Kind{Used: day(t0)}
	}
	l.pruneKinds(nil, t0)
	must.MapLen(t, leastKinds*kindsLimit+10, l.Kinds)
	must.MapContainsKey(t, l.Kinds, "team-499/")
	must.MapContainsKey(t, l.Kinds, "team-499/new")
	must.MapNotContainsKey(t, l.Kinds, "team-000/old")
}

func TestKind_WhatDoesNotImproveExpires(t *testing.T) {
	l := New()
	point := func(size int, step float64) speedup.Point {
		return speedup.Point{Size: size, StepTime: step, Samples: learnedSteps}
	}
	run := func(now time.Time) {
		l.learnKind("k", nil, []speedup.Point{point(8, 1), point(4, 0.5), point(2, 0.8)}, now)
	}
	largest := func(now time.Time) int {
		l.Kinds["k"].expire(now)
		c := l.Kinds["k"].extend(nil, nil)
		return c.Largest()
	}
	hours := func(h int) time.Time { return day(t0).Add(time.Duration(h) * time.Hour) }
	run(hours(1))
	must.Eq(t, 8, largest(hours(23)))
	must.Eq(t, 4, largest(hours(26)), must.Sprint("one run's word holds for a day"))
	run(hours(27))
	must.Eq(t, 8, largest(hours(27+47)), must.Sprint("that of two, for two"))
	must.Eq(t, 4, largest(hours(27+49)))

	run(hours(100))
	c := l.Kinds["k"].extend([]speedup.Point{point(4, 0.5)}, []int{8})
	must.Eq(t, 4, c.Largest(), must.Sprint("a job does not borrow what has expired for it"))
}

// Measurements in favour of a size do not prolong the trust in those against it.
func TestKind_LessonsInFavourDoNotCount(t *testing.T) {
	l := New()
	point := func(size int, step float64) speedup.Point {
		return speedup.Point{Size: size, StepTime: step, Samples: learnedSteps}
	}
	for range 12 {
		l.learnKind("k", nil, []speedup.Point{point(4, 1), point(8, 0.95)}, t0)
	}
	l.learnKind("k", nil, []speedup.Point{point(4, 1), point(8, 3)}, t0)
	must.Eq(t, []int{8}, l.Kinds["k"].Shape.NonImproving())
	l.Kinds["k"].expire(t0.Add(25 * time.Hour))
	must.SliceEmpty(t, l.Kinds["k"].Shape.NonImproving())
}

// TestKind_KeepsNoFalseCurve has a job claim to be a billion times as fast on 20 workers as
// on one.
func TestKind_KeepsNoFalseCurve(t *testing.T) {
	claim := []speedup.Point{{Size: 1, StepTime: 1000, Samples: learnedSteps}, {Size: 20, StepTime: 1e-6, Samples: learnedSteps}}
	l := New()
	l.learnKind("k", nil, claim, t0)
	next := l.Kinds["k"].extend(nil, nil)
	must.InDelta(t, 20, next.Speedup(20), 1e-9)

	t.Log("nor does one that an earlier build has learned bring anything")
	earlier := &Kind{}
	earlier.Shape.Learn(speedup.NewCurve(claim...), 20)
	next = earlier.extend([]speedup.Point{{Size: 2, StepTime: 1}}, nil)
	must.InDelta(t, 10, next.Time(2)/next.Time(20), 1e-9)
	own := (&Job{Measurements: []Measurement{{Point: claim[0]}, {Point: claim[1]}}}).Points()
	curve := (*Kind)(nil).extend(own, nil)
	must.InDelta(t, 20, curve.Speedup(20), 1e-9)
}
