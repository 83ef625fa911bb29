// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/timeline"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// A training cannot make the autoscaler store much.
func TestTraining_IsBounded(t *testing.T) {
	p := &history.Progress{Phase: "training", Ranks: []history.Rank{{Rank: 9, AllocID: strings.Repeat("x", 1<<16)}, {Rank: 8}}}
	for i := range 100_000 {
		p.Ranks = append(p.Ranks, history.Rank{Rank: i, AllocID: fmt.Sprintf("%036d", i%8)})
	}
	got := Training(p)
	must.MapLen(t, 8, got.Ranks)
	must.Eq(t, []int{0, 8, 16}, got.Ranks[fmt.Sprintf("%036d", 0)][:3])
	must.LessEq(t, mostRanks/8, len(got.Ranks[fmt.Sprintf("%036d", 0)]))
}

// The last stall is kept with what the ranks did.
func TestTraining_Stall(t *testing.T) {
	must.Nil(t, Training(&history.Progress{}).Stall)
	taken := &stacks.Summary{Silent: "3"}
	must.Eq(t, &api.Stall{Time: time.UnixMilli(1500).UTC(), Size: 4, Seconds: 61, Stacks: taken}, Training(&history.Progress{Stall: &history.Stall{Size: 4, Seconds: 61, Time: 1.5, Stacks: taken}}).Stall)
	must.True(t, Training(&history.Progress{Stall: &history.Stall{Size: 4}}).Stall.Time.IsZero(), must.Sprint("of an older agent"))
}

func TestCurve(t *testing.T) {
	measured := []speedup.Point{{Size: 2, StepTime: 1}, {Size: 4, StepTime: 0.6}}
	got := Curve(measured, speedup.NewCurve(measured...), &planner.Job{Min: 1, Max: 5})
	var words []string
	for _, p := range got {
		words = append(words, fmt.Sprintf("%d %t", p.Size, p.Measured))
		must.Positive(t, p.StepTime)
	}
	must.Eq(t, []string{"1 false", "2 true", "3 false", "4 true", "5 false"}, words)
	must.SliceEmpty(t, Curve(nil, speedup.Curve{}, &planner.Job{Min: 1, Max: 5}), must.Sprint("times would have no unit"))
	must.LessEq(t, mostSizes, len(Curve(measured, speedup.NewCurve(measured...), &planner.Job{Min: 1, Max: 100_000})))
}

func TestSeries_KeepsWhatIsUnknownUnknown(t *testing.T) {
	s := &timeline.Series{}
	empty := Series(s)
	must.NotNil(t, empty.Time)
	must.NotNil(t, empty.Resizes)
	at := time.Unix(100, 0)
	s.Add(timeline.Sample{At: at, Size: 2, Step: 3})
	got := Series(s)
	must.SliceEmpty(t, got.Samples)
	must.SliceEmpty(t, got.Loss)
	loss := 0.5
	s.Add(timeline.Sample{At: at.Add(time.Minute), Size: 2, Step: 9, Loss: &loss})
	s.Note(timeline.Mark{At: at, From: 1, To: 2, Cause: "resize"})
	got = Series(s)
	must.Eq(t, []*float64{nil, &loss}, got.Loss)
	must.Nil(t, got.Resizes[0].Seconds)
}

// An unhealthy device is reported with its reason, its node and the allocation that holds
// it.
func TestNodes(t *testing.T) {
	key := identity.JobKey{Namespace: "default", ID: "a"}
	machines := []cluster.Machine{{
		ID: "1", Name: "n1", Pool: "gpu", State: "ready", Total: 2,
		Devices: []cluster.Instance{{ID: "g0", Group: "nvidia/gpu/H100"}, {ID: "g1", Group: "nvidia/gpu/H100", Sick: true, Why: "Xid 79"}},
		Held:    []cluster.Held{{Alloc: "alloc", Job: key, Elastic: true, Slots: 2, Devices: []string{"g0", "g1"}}},
	}}
	nodes := Nodes(&cluster.View{}, machines)
	must.Eq(t, 1, nodes[0].Sick)
	must.Eq(t, []string{"nvidia/gpu/H100 g1: Xid 79"}, nodes[0].Problems)
	got := Allocations(key, machines, &api.Training{Ranks: map[string][]int{"alloc": {4, 5}}})
	must.Len(t, 1, got)
	must.Eq(t, []string{"g1"}, got[0].Sick)
	must.Eq(t, []int{4, 5}, got[0].Ranks)
	must.SliceEmpty(t, Allocations(identity.JobKey{Namespace: "default", ID: "b"}, machines, nil))
}

// A training's report comes from a tenant's process, so its texts are bounded.
func TestTraining_Bounds(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	got := Training(&history.Progress{Phase: long, Hold: long})
	must.LessEq(t, mostText+len("…"), len(got.Phase))
	must.LessEq(t, mostText+len("…"), len(got.Hold))
	must.True(t, utf8.ValidString(got.Hold))
	must.Eq(t, "a reason", Training(&history.Progress{Hold: "a reason"}).Hold)
	must.Eq(t, "resize", Mark(&history.Resize{Cause: long}).Cause)
	must.Eq(t, "failure", Mark(&history.Resize{Cause: "failure"}).Cause)
}
