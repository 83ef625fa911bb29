// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// finish computes CPU slots and collects the demand of jobs that are not elastic.
func (b *viewBuilder) finish() {
	for i := range b.view.Nodes {
		n := &b.view.Nodes[i]
		if slot := b.pools(n.Pool).CPUSlot; slot > 0 {
			n.Bins[0].Slots = max(0, n.CPU) / slot
		}
	}
	for i := range b.view.Jobs {
		j, f := &b.view.Jobs[i], &b.view.Facts[i]
		f.Failed = f.Status == "dead" && j.Count() > 0 && j.Alive() == 0 && f.Completed == 0
		f.Where = b.where(j)
		f.Whole = j.HasMinimum()
		if j.Count() == 0 && !j.Stopped {
			j.NeverFits = b.neverFits(j)
		}
	}
	b.blocked()
	b.rigids()
}

// rigidKey identifies a job that is not elastic in a pool.
type rigidKey struct {
	pool string
	job  identity.JobKey
}

// countRigid counts the slots of a divided pool that an allocation of a job that is not
// elastic holds. Slots on nodes that accept no workers are not divided, so they do not
// count.
func (b *viewBuilder) countRigid(n *planner.Node, a *alloc, slots int) {
	pool := b.pools(n.Pool)
	switch {
	case pool.Tree == nil || n.State != planner.Ready:
	case pool.CPUSlot > 0:
		b.rigid[rigidKey{n.Pool, a.job}] += a.cpu
	case slots > 0:
		b.rigid[rigidKey{n.Pool, a.job}] += slots
	}
}

// rigids collects the jobs that are not elastic and hold slots of divided pools.
func (b *viewBuilder) rigids() {
	for key, n := range b.rigid {
		pool := b.pools(key.pool)
		if pool.CPUSlot > 0 {
			n /= pool.CPUSlot // parts of a slot do not add up on one node; whole ones count
		}
		if n > 0 {
			ns := key.job.Namespace
			b.view.Rigid = append(b.view.Rigid, Rigid{Key: key.job, Pool: key.pool, Queue: pool.QueueOf(ns, ns), Slots: n})
		}
	}
	slices.SortFunc(b.view.Rigid, func(x, y Rigid) int {
		return cmp.Or(cmp.Compare(x.Pool, y.Pool), strings.Compare(x.Key.String(), y.Key.String()))
	})
}

// blocked collects the unplaced workers of jobs that are not elastic. It leaves out
// workers that were placed after Nomad counted them, which separate events report.
// Otherwise elastic jobs would give up the same room twice.
func (b *viewBuilder) blocked() {
	waiting := b.store.waiting()
	if len(waiting) == 0 {
		return
	}
	placed := b.placedSince(waiting)
	for key := range waiting {
		j := b.store.jobs[key]
		if _, elastic := b.jobAt[key]; elastic || j == nil || j.stopped {
			continue
		}
		pool := b.pools(j.pool)
		out := Blocked{Key: j.key, Pool: j.pool, Queue: pool.QueueOf(j.key.Namespace, j.key.Namespace), Priority: j.priority}
		if rule, ok := pool.RuleOf(j.key.Namespace, j.key.Namespace); ok && rule.MaxPriority > 0 {
			out.Priority = min(out.Priority, rule.MaxPriority)
		}
		for _, g := range j.groups {
			n := max(0, min(j.queue.workers[g.name], mostAmount)-placed[groupOf{key, g.name}])
			slots := 0
			switch {
			case pool.CPUSlot > 0 && g.slots == 0:
				slots = (g.cpu + pool.CPUSlot - 1) / pool.CPUSlot
			case pool.CPUSlot == 0:
				slots = g.slots
			}
			if n > 0 && slots > 0 && b.ever(g) {
				out.Workers += n
				out.Slots += n * slots
				if out.Worker == 0 || slots < out.Worker {
					out.Worker = slots
				}
			}
		}
		if out.Slots > 0 {
			b.view.Blocked = append(b.view.Blocked, out)
		}
	}
	slices.SortFunc(b.view.Blocked, func(x, y Blocked) int {
		return cmp.Or(y.Priority-x.Priority, strings.Compare(x.Key.String(), y.Key.String()))
	})
}

// groupOf identifies a group of a job.
type groupOf struct {
	job  identity.JobKey
	name string
}

// placedSince counts, for the given jobs, the workers that were placed after Nomad
// last counted the waiting ones.
func (b *viewBuilder) placedSince(jobs map[identity.JobKey]bool) map[groupOf]int {
	out := map[groupOf]int{}
	for _, a := range b.store.allocs {
		if j := b.store.jobs[a.job]; jobs[a.job] && j != nil && a.made > j.queue.index && !a.over {
			out[groupOf{a.job, a.group}]++
		}
	}
	return out
}

// ever reports whether a worker of the group could run on some node if that node
// were empty. A job that asks for more never starts, so other jobs must not give up
// room for it.
func (b *viewBuilder) ever(g jobGroup) bool {
	return slices.ContainsFunc(b.class(g.class).Places, func(p placement.Place) bool {
		n := b.store.nodes[b.view.Nodes[p.Node].ID]
		return g.cpu <= n.cpu && g.memory <= n.memory && g.slots <= n.devices(g.device)
	})
}

// devices returns the largest number of devices in one group that serves the ask,
// unhealthy ones included.
func (n *node) devices(ask string) int {
	most := 0
	for _, g := range n.groups {
		if matches(g.id, ask) {
			most = max(most, g.healthy+len(g.sick))
		}
	}
	return most
}
