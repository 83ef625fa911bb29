// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// path returns the domain that contains all places of a class, at each level of the
// pool's topology. It is empty if the places are in several outermost domains.
func (b *viewBuilder) path(pool string, class *planner.Class) []int {
	if path, known := b.paths[class]; known {
		return path
	}
	var path []int
	tree := b.view.Topologies[pool]
	if tree != nil {
		leaves := make([]int, len(class.Places))
		for i, at := range class.Places {
			leaves[i] = tree.Leaf(at.Node, at.Bin)
		}
		if level, domain, ok := tree.Common(leaves); ok {
			path = make([]int, level+1)
			for ; level >= 0; level-- {
				path[level] = domain
				domain = tree.Domains(level)[domain].Parent
			}
		}
	}
	b.paths[class] = path
	return path
}

// where returns where a job's workers are, in a pool with a topology. The result is
// unknown if a worker waits for a place or is stopping.
func (b *viewBuilder) where(j *planner.Job) history.Where {
	tree := b.view.Topologies[j.Pool]
	if tree == nil || tree.Unread > 0 || !b.pools(j.Pool).Aware || j.Alive() != j.Count() {
		return history.Where{}
	}
	parts := make([]topology.Part, 0, j.Count())
	for g := range j.Groups {
		if len(j.Groups[g].Live) != j.Groups[g].Count {
			return history.Where{}
		}
		for _, w := range j.Groups[g].Live {
			leaf := tree.Leaf(w.Node, w.Bin)
			if w.Ending || w.Bin < 0 || leaf < 0 {
				return history.Where{}
			}
			parts = append(parts, topology.Part{Leaf: leaf, Workers: 1})
		}
	}
	at := history.Where{Workers: len(parts)}
	if s := tree.Spread(parts); s.Domains > 1 {
		inside := tree.By(len(tree.Levels())-1, parts)
		most := slices.MaxFunc(inside, func(a, b topology.Share) int { return cmp.Compare(a.Workers, b.Workers) })
		at.Crossing = migrate.Crossing{Level: tree.Levels()[s.Level].Name, Domains: s.Domains, Parts: len(inside), Most: most.Workers}
	}
	return at
}

// locality returns how close together a job's workers must be, or nil if it does
// not matter. A gang is placed by its ratio.
func (b *viewBuilder) locality(j *job, pool config.Pool) *planner.Locality {
	s, tree := j.spec, b.view.Topologies[j.pool]
	if !pool.Aware || tree == nil || s.Locality == jobspec.Blind || s.Ratio != nil {
		return nil
	}
	out := &planner.Locality{Level: s.Level}
	if s.Level != "" {
		out.Levels = tree.Level(s.Level) + 1
	}
	if s.Locality == jobspec.Require {
		out.Within = out.Levels
	}
	return out
}

// unbound returns the problems of a job whose level does not fit its pool's
// topology.
func (b *viewBuilder) unbound(j *job, pool config.Pool) problem.List {
	const where = "scaling.policy.kolo.level"
	level := j.spec.Level
	if level == "" {
		return nil
	}
	var names []string
	for _, l := range pool.Levels {
		names = append(names, l.Name)
	}
	switch {
	case !pool.Aware:
		return problem.List{{Field: where, Text: fmt.Sprintf("node pool %q has no topology, and so no level %q", j.pool, level),
			Remedy: "remove it, or have the operator write a topology block for the pool"}}
	case !slices.Contains(names, level):
		return problem.List{{Field: where, Text: fmt.Sprintf("the topology of node pool %q has no level %q", j.pool, level),
			Remedy: fmt.Sprintf("write one of %q", names)}}
	}
	tree := b.view.Topologies[j.pool]
	if j.spec.Locality != jobspec.Require || tree == nil || tree.Unread > 0 {
		return nil
	}
	l := tree.Level(level)
	for _, g := range j.groups {
		if !slices.ContainsFunc(j.spec.Groups, func(s jobspec.Group) bool { return s.Name == g.name }) {
			continue
		}
		class := b.class(g.class)
		if len(class.Places) == 0 {
			continue // currently no node is feasible
		}
		path := b.path(j.pool, class)
		where := fmt.Sprintf("group %q", g.name)
		switch {
		case len(path) <= l:
			return problem.List{{Field: where, Text: fmt.Sprintf("its nodes are in several domains of %s, which the job requires not to cross", level),
				Remedy: "bind each group to one by a constraint on " + pool.Levels[l].Target()}}
		case tree.Domains(l)[path[l]].Missing:
			return problem.List{{Field: where, Text: fmt.Sprintf("its nodes have no value of %s, which the job requires not to cross", level),
				Remedy: "bind it to nodes that have one, or have the operator set it"}}
		}
	}
	return nil
}
