// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

func TestKinds_TheNextRunKnowsWhatTheLastFoundOut(t *testing.T) {
	l := NewLedger()
	two, four := policy.Point{Size: 2, StepTime: 1, Samples: 20}, policy.Point{Size: 4, StepTime: 0.8, Samples: 20}
	few := four
	few.Samples = taughtSteps - 1

	l.teach("default/resnet", nil, []policy.Point{two}, t0)
	must.MapEmpty(t, l.Kinds, must.Sprint("one size has no shape"))
	l.teach("default/resnet", []policy.Point{two}, []policy.Point{two, few}, t0)
	must.MapEmpty(t, l.Kinds, must.Sprint("too few steps to say"))
	l.teach("default/resnet", []policy.Point{two, few}, []policy.Point{two, four}, t0)

	saved := NewLedger()
	texts, dropped, err := l.encode()
	must.NoError(t, err)
	must.Zero(t, dropped)
	for _, text := range texts {
		if text != "" {
			must.NoError(t, saved.decode(text))
		}
	}
	facts := &cluster.Facts{Spec: &jobspec.Spec{Kind: "resnet"}}
	kind := saved.Kinds[kindKey(planner.JobKey{Namespace: "default", ID: "resnet/dispatch-1"}, facts)]
	slow := kind.extend([]policy.Point{{Size: 2, StepTime: 10}}, nil)
	must.InDelta(t, 8, slow.Time(4), 1e-9)
	must.Len(t, 1, slow.Points())

	var none *Kind
	plain := none.extend([]policy.Point{two}, nil)
	must.Eq(t, 2, plain.Largest())
}

func TestKinds_OldOnesAreForgotten(t *testing.T) {
	l := NewLedger()
	for i := range kindsLimit + 10 {
		l.Kinds[fmt.Sprintf("default/%03d", i)] = &Kind{Used: day(t0.Add(time.Duration(i) * time.Second))}
	}
	l.Kinds["default/used"] = &Kind{Used: day(t0.Add(-100 * 24 * time.Hour))}
	l.Kinds["default/unused"] = &Kind{Used: day(t0.Add(-100 * 24 * time.Hour))}
	v := &cluster.View{Facts: []cluster.Facts{{Spec: &jobspec.Spec{Kind: "used"}}}}
	v.Jobs = []planner.Job{{Key: planner.JobKey{Namespace: "default", ID: "a"}}}
	l.keepKinds(v, t0.Add(24*time.Hour))
	must.MapLen(t, kindsLimit, l.Kinds)
	must.MapContainsKey(t, l.Kinds, "default/used")
	must.MapNotContainsKey(t, l.Kinds, "default/unused")
}
