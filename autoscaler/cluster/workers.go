// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// allocs assigns live allocations to their elastic groups, and subtracts the
// resources of all others from the nodes.
func (b *viewBuilder) allocs() {
	for _, a := range b.store.allocs {
		j, elastic := b.jobAt[a.job]
		g := -1
		if elastic {
			g = slices.IndexFunc(b.view.Jobs[j].Groups, func(g planner.Group) bool { return g.Name == a.group })
		}
		if g >= 0 {
			f := &b.view.Facts[j]
			if f.Oldest.IsZero() || a.created.Before(f.Oldest) {
				f.Oldest = a.created
			}
			if a.complete {
				f.Completed = max(f.Completed, a.index)
			}
		}
		if a.over {
			continue
		}
		n, known := b.nodeAt[a.node]
		if !elastic && !a.ending {
			b.view.Others[a.job]++
		}
		if g < 0 {
			if known {
				b.takeOff(n, a)
			}
			continue
		}
		at := planner.Worker{Place: placement.Place{Node: -1, Bin: -1}, Ending: a.ending}
		if known {
			at.Node = n
			at.Bin = b.bin(n, a)
			b.checkHealth(j, a)
		}
		if !a.ending {
			b.view.Facts[j].Running++
			if b.view.Jobs[j].Ratio != nil {
				b.view.Facts[j].InRatio += b.view.Jobs[j].Groups[g].Need.Slots
			}
			b.view.Facts[j].Newest = max(b.view.Facts[j].Newest, a.made)
		}
		b.view.Jobs[j].Groups[g].Live = append(b.view.Jobs[j].Groups[g].Live, at)
	}
}

func (b *viewBuilder) bin(n int, a *alloc) int {
	for _, d := range a.devices {
		if bin, ok := b.binAt[n][d.group]; ok {
			return bin
		}
	}
	if len(b.view.Nodes[n].Bins) == 1 {
		return 0
	}
	return -1
}

func (b *viewBuilder) takeOff(n int, a *alloc) {
	node := &b.view.Nodes[n]
	node.CPU -= a.cpu
	node.Memory -= a.memory
	slots := 0
	for _, d := range a.devices {
		if bin, ok := b.binAt[n][d.group]; ok {
			node.Bins[bin].Slots -= len(d.ids)
			slots += len(d.ids)
		}
	}
	b.countRigid(node, a, slots)
}

// checkHealth finds workers that a change of the count could kill, because Nomad
// moves them when it evaluates their node again.
func (b *viewBuilder) checkHealth(j int, a *alloc) {
	job := &b.view.Jobs[j]
	node := b.store.nodes[a.node]
	switch {
	case node.Status != api.NodeStatusReady:
		job.UnhealthyReason = fmt.Sprintf("a worker is on node %s, which is %s", node.Name, node.Status)
		return
	case node.Drain:
		job.UnhealthyReason = fmt.Sprintf("a worker is on node %s, which is being drained", node.Name)
		return
	}
	for _, g := range b.store.jobs[a.job].groups {
		for _, d := range g.drivers {
			if info, ok := node.Drivers[d]; ok && !info.Healthy && g.name == a.group {
				job.UnhealthyReason = fmt.Sprintf("driver %s of node %s is unhealthy", d, node.Name)
			}
		}
	}
	for _, d := range a.devices {
		for _, g := range node.groups {
			if g.id != d.group {
				continue
			}
			for _, id := range d.ids {
				if _, sick := g.sick[id]; sick {
					job.UnhealthyReason = fmt.Sprintf("device %s of node %s is unhealthy", id, node.Name)
				}
			}
		}
	}
}
