// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"encoding/json"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// workers returns live workers on the first bin of nodes.
func workers(nodes ...int) []planner.Worker {
	var out []planner.Worker
	for _, n := range nodes {
		out = append(out, planner.Worker{Place: placement.Place{Node: n}})
	}
	return out
}

// racks returns a view of four nodes of four slots in two racks, and of jobs whose workers
// have two slots each. The last node drains.
func racks(t *testing.T, jobs ...planner.Job) *cluster.View {
	levels, err := topology.ParseLevels([]string{"meta.rack"})
	must.NoError(t, err)
	v := &cluster.View{Topologies: map[string]*cluster.Topology{}}
	var nodes []topology.Node
	for i, name := range []string{"n1", "n2", "n3", "n4"} {
		state := planner.Ready
		if i == 3 {
			state = planner.Draining
		}
		v.Nodes = append(v.Nodes, planner.Node{Name: name, Pool: "gpu", State: state, Bins: []planner.Bin{{Slots: 4}}})
		nodes = append(nodes, topology.Node{Values: []string{[]string{"r1", "r1", "r2", ""}[i], name}, Bins: []topology.Bin{{Link: topology.NVLink}}})
	}
	v.Topologies["gpu"] = &cluster.Topology{Tree: topology.New(levels, nodes), Unread: 1}
	for _, j := range jobs {
		j.Pool = "gpu"
		f := cluster.Facts{}
		f.Slots = 2
		v.Jobs, v.Facts = append(v.Jobs, j), append(v.Facts, f)
	}
	return v
}

func spreadJob(id string, groups ...planner.Group) planner.Job {
	return planner.Job{Key: identity.JobKey{Namespace: "default", ID: id}, Groups: groups}
}

func TestTopology(t *testing.T) {
	pools := Topology(racks(t,
		spreadJob("across", planner.Group{Live: workers(0, 0)}, planner.Group{Live: workers(2)}),
		spreadJob("drained", planner.Group{Live: workers(3)}),
		spreadJob("lost", planner.Group{Live: workers(-1)}),
		spreadJob("waiting", planner.Group{}),
	))
	must.Len(t, 1, pools)
	p := pools[0]
	must.Eq(t, []string{"meta.rack", "node"}, p.Levels)
	must.Eq(t, topology.Amount{Free: 6, Used: 8}, p.Amount)
	must.Eq(t, 1, p.Unread)
	must.Len(t, 1, p.Problems)
	text, err := json.Marshal(p.Domains)
	must.NoError(t, err)
	must.EqJSON(t, `[
		{"name": "r1", "nodes": 2, "free": 4, "used": 4, "domains": [{"name": "n1", "nodes": 1, "free": 0, "used": 4}, {"name": "n2", "nodes": 1, "free": 4, "used": 0}]},
		{"name": "r2", "nodes": 1, "free": 2, "used": 2, "domains": [{"name": "n3", "nodes": 1, "free": 2, "used": 2}]},
		{"name": "", "missing": true, "nodes": 1, "free": 0, "used": 2, "domains": [{"name": "n4", "nodes": 1, "free": 0, "used": 2}]}
	]`, string(text))
	must.Eq(t, []api.JobSpread{
		{
			JobKey: identity.JobKey{Namespace: "default", ID: "across"}, Workers: 3, Level: "meta.rack", Domains: 2,
			Cost:  (1 + 2*16*7) / 3.0, // a pair on NVLink, and two across racks
			Parts: []api.JobShare{{Path: []string{"r1"}, Workers: 2}, {Path: []string{"r2"}, Workers: 1}},
		},
		{
			JobKey: identity.JobKey{Namespace: "default", ID: "drained"}, Workers: 1, Domains: 1,
			Parts: []api.JobShare{{Path: []string{"", "n4"}, Workers: 1}},
		},
	}, p.Jobs)
}
