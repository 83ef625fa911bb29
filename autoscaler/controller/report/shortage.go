// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// addShortage adds the slots that jobs lack to a status, and the nodes that they could use.
func addShortage(s *api.Status, r *Round) {
	v := r.View
	pools := map[string]*api.PoolStatus{}
	for i := range s.Pools {
		pools[s.Pools[i].Name] = &s.Pools[i]
	}
	short := planner.Shortages(&v.Cluster, r.Wants, r.Ample, r.Plan, r.Now)
	for _, x := range short {
		j, lack := &v.Jobs[x.Job], &api.Lack{Slots: v.Facts[x.Job].SlotsOf(x.Workers)}
		if j.Locality != nil && j.Locality.Within > 0 {
			lack.Level = j.Locality.Level
		}
		s.Jobs[x.Job].Lacks = lack
		addLack(pools[j.Pool], *lack)
	}
	for _, k := range planner.NodeClasses(&v.Cluster, r.Wants, short, r.Plan, r.Now) {
		p := pools[k.Pool]
		p.Nodes = append(p.Nodes, api.NodeClass{Class: k.Class, Nodes: k.Nodes, Idle: k.Idle, Waiting: k.Waiting, Growing: k.Growing})
	}
	for _, p := range pools {
		slices.SortFunc(p.Lacks, func(a, b api.Lack) int { return cmp.Compare(a.Level, b.Level) })
	}
}

// addLack adds the slots that a job lacks to the sums of its pool.
func addLack(p *api.PoolStatus, lack api.Lack) {
	i := slices.IndexFunc(p.Lacks, func(l api.Lack) bool { return l.Level == lack.Level })
	if i < 0 {
		i = len(p.Lacks)
		p.Lacks = append(p.Lacks, api.Lack{Level: lack.Level})
	}
	p.Lacks[i].Slots += lack.Slots
}
