// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package slowdown

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// scattered returns jobs with a worker in each of a number of full racks. Their measured
// steps are slower by a hundredth for each rack.
func scattered(t testing.TB, racks, jobs int) (*planner.Cluster, []planner.Want) {
	levels, err := topology.ParseLevels([]string{"meta.rack"})
	must.NoError(t, err)
	v := &planner.Cluster{}
	var nodes []topology.Node
	var classes []*planner.Class
	for r := range racks {
		name := fmt.Sprint("n", r)
		v.Nodes = append(v.Nodes, planner.Node{Name: name, Pool: "gpu", Bins: []planner.Bin{{Slots: jobs}}})
		nodes = append(nodes, topology.Node{Values: []string{fmt.Sprint("r", r), name}, Bins: []topology.Bin{{}}})
		classes = append(classes, &planner.Class{Places: []placement.Place{{Node: r}}})
	}
	tree := topology.New(levels, nodes)
	own := &migrate.Sensitivity{Points: []migrate.Point{point(racks, migrate.Crossing{}, 1), point(racks, nodeSpread(2), 1)}}
	for n := 2; n <= 128; n *= 2 {
		own.Points = append(own.Points, point(racks, rackSpread(n), 1+float64(n)/100))
	}
	rooms := NewRooms(v.Nodes)
	var wants []planner.Want
	for i := range jobs {
		j := planner.Job{
			Key: identity.JobKey{Namespace: "default", ID: fmt.Sprint("j", i)}, Pool: "gpu",
			Locality: &planner.Locality{}, Started: true, Min: 1, Max: 4096,
		}
		for r := range racks {
			j.Groups = append(j.Groups, planner.Group{
				Name: fmt.Sprint("r", r), Count: 1, Max: 64, Need: placement.Need{Slots: 1}, Class: classes[r], Path: []int{r},
				Live: []planner.Worker{{Place: classes[r].Places[0]}},
			})
		}
		m := New(&j, tree, new(rackSpread(racks)), own, &migrate.Sensitivity{}, rooms)
		j.Mobility = &planner.Mobility{Remaining: 36000, Gap: 1, Slowdown: m.FromNow}
		v.Jobs, wants = append(v.Jobs, j), append(wants, planner.Want{Count: racks})
	}
	return v, wants
}

// BenchmarkRearrange plans the moves of jobs that are scattered over all racks of a
// full cluster.
func BenchmarkRearrange(b *testing.B) {
	for _, tc := range []struct{ racks, jobs int }{{8, 64}, {16, 32}, {128, 4}, {64, 16}, {256, 1}, {128, 128}} {
		b.Run(fmt.Sprintf("%d racks, %d jobs", tc.racks, tc.jobs), func(b *testing.B) {
			v, wants := scattered(b, tc.racks, tc.jobs)
			actions := 0
			for b.Loop() {
				p := planner.Make(v, wants, time.Unix(1_800_000_000, 0), planner.DefaultOptions())
				actions = len(p.Actions)
			}
			b.ReportMetric(float64(actions), "actions")
		})
	}
}
