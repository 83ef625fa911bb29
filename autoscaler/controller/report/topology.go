// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// Topology returns the topology of each pool of a view, with its free and used slots, and
// how far apart the workers of jobs are.
func Topology(v *cluster.View) []api.PoolTopology {
	out := []api.PoolTopology{}
	parts := partsOf(v)
	for _, pool := range slices.Sorted(maps.Keys(v.Topologies)) {
		t := v.Topologies[pool]
		slots := occupied(v, pool, t, parts)
		p := api.PoolTopology{
			Pool: pool, Amount: slots.Pool(), Unread: t.Unread, Problems: t.Problems(), Jobs: []api.JobSpread{},
			Domains: domains(t.Tree, slots),
		}
		for _, l := range t.Levels() {
			p.Levels = append(p.Levels, l.Name)
		}
		for j := range v.Jobs {
			if v.Jobs[j].Pool == pool && len(parts[j]) > 0 {
				p.Jobs = append(p.Jobs, spread(t.Tree, v.Jobs[j].Key, parts[j]))
			}
		}
		out = append(out, p)
	}
	return out
}

// partsOf returns the live workers of each job that have a place, as parts of the tree of
// its pool.
func partsOf(v *cluster.View) [][]topology.Part {
	out := make([][]topology.Part, len(v.Jobs))
	for j := range v.Jobs {
		t := v.Topologies[v.Jobs[j].Pool]
		if t == nil {
			continue
		}
		for _, g := range v.Jobs[j].Groups {
			for _, w := range slices.Concat(g.Live, g.Spares) {
				if leaf := t.Leaf(w.Node, w.Bin); leaf >= 0 {
					out[j] = append(out[j], topology.Part{Leaf: leaf, Workers: 1})
				}
			}
		}
	}
	return out
}

// occupied counts the slots of a pool: the free ones of nodes that take workers, and those
// that elastic jobs hold on any node.
func occupied(v *cluster.View, pool string, t *cluster.Topology, parts [][]topology.Part) *topology.Slots {
	slots := t.Slots()
	for i := range v.Nodes {
		if v.Nodes[i].Pool != pool || v.Nodes[i].State != planner.Ready {
			continue
		}
		for b, bin := range v.Nodes[i].Bins {
			slots.Add(t.Leaf(i, b), max(0, bin.Slots), 0)
		}
	}
	for j := range v.Jobs {
		if v.Jobs[j].Pool != pool {
			continue
		}
		for _, p := range parts[j] {
			n := v.Facts[j].SlotsOf(p.Workers)
			slots.Add(p.Leaf, -min(n, slots.At(p.Leaf).Free), n)
		}
	}
	return slots
}

// domains returns all domains of a tree, each with those inside it.
func domains(t *topology.Tree, slots *topology.Slots) []api.Domain {
	var inside [][]api.Domain // of the next inner level, by parent
	for l := len(t.Levels()) - 1; l >= 0; l-- {
		parents := 1
		if l > 0 {
			parents = len(t.Domains(l - 1))
		}
		level := make([][]api.Domain, parents)
		for d, dom := range t.Domains(l) {
			out := api.Domain{Name: dom.Name, Missing: dom.Missing, Nodes: dom.Nodes, Amount: slots.Of(l, d)}
			if inside != nil {
				out.Domains = inside[d]
			}
			p := max(0, dom.Parent)
			level[p] = append(level[p], out)
		}
		inside = level
	}
	return inside[0]
}

func spread(t *topology.Tree, key identity.JobKey, parts []topology.Part) api.JobSpread {
	s := t.Score(parts)
	n := len(parts)
	out := api.JobSpread{JobKey: key, Workers: n, Domains: s.Domains}
	level := s.Level
	if level < len(t.Levels()) {
		out.Level = t.Levels()[level].Name
	} else {
		level--
	}
	if n > 1 {
		out.Cost = float64(s.Cost) / float64(n*(n-1)/2)
	}
	for _, share := range t.By(level, parts) {
		var path []string
		for l, d := level, share.Domain; l >= 0; l-- {
			dom := &t.Domains(l)[d]
			path = append(path, dom.Name)
			d = dom.Parent
		}
		slices.Reverse(path)
		out.Parts = append(out.Parts, api.JobShare{Path: path, Workers: share.Workers})
	}
	return out
}
