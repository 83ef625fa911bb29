// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// neverFits returns why the nodes could not hold the minimum of a job even if they were
// empty, or "" if they could.
func (b *viewBuilder) neverFits(j *planner.Job) string {
	need := max(1, j.Sizes.Above(j.Min-1))
	if j.Ratio != nil {
		return b.gangNeverFits(j, need)
	}
	workers, slots := 0, 0
	var largest *planner.Group // a group none of whose workers fits
	for g := range j.Groups {
		group := &j.Groups[g]
		n := b.emptyRoom(group, min(need, group.Max))
		if n == 0 && (largest == nil || group.Need.Slots < largest.Need.Slots) {
			largest = group
		}
		if workers += n; workers >= need {
			return ""
		}
		slots += n * group.Need.Slots
	}
	if workers == 0 && largest != nil {
		return b.unfitWorker(largest)
	}
	least := need * j.Groups[0].Need.Slots
	return fmt.Sprintf("its minimum is %d slots, and the nodes that it may use would have room for %d if they were empty: %d too few", least, slots, least-slots)
}

// gangNeverFits does the same as neverFits for a gang, each of whose groups needs room.
func (b *viewBuilder) gangNeverFits(j *planner.Job, need int) string {
	all, has, least := map[placement.Place]bool{}, 0, 0
	for g, n := range j.Shape(need) {
		group := &j.Groups[g]
		fit := b.emptyRoom(group, n)
		switch {
		case fit == 0:
			return fmt.Sprintf("group %q: %s", group.Name, b.unfitWorker(group))
		case fit < n:
			return fmt.Sprintf("its minimum has %d workers in group %q, and the nodes that these may use would have room for %d if they were empty: %d too few", n, group.Name, fit, n-fit)
		}
		if group.Need.Slots == 0 {
			continue
		}
		least += n * group.Need.Slots
		for _, at := range group.Class.Places {
			if !all[at] {
				all[at] = true
				has += b.totals[at.Node][at.Bin]
			}
		}
	}
	if has < least {
		return fmt.Sprintf("its minimum is %d slots, and the nodes that it may use would have room for %d if they were empty: %d too few", least, has, least-has)
	}
	return ""
}

// unfitWorker states why no node could hold one worker of a group.
func (b *viewBuilder) unfitWorker(g *planner.Group) string {
	if g.Class == nil || len(g.Class.Places) == 0 {
		return "no node of its pool that takes workers meets its constraints"
	}
	if g.Need.Slots == 0 {
		return fmt.Sprintf("no node that it may use has the %d MHz and %d MiB of one worker", g.Need.CPU, g.Need.Memory)
	}
	most := 0
	for _, at := range g.Class.Places {
		most = max(most, b.totals[at.Node][at.Bin])
	}
	if most < g.Need.Slots {
		return fmt.Sprintf("a worker needs %d slots of one node, and the largest node that it may use has %d: %d too few", g.Need.Slots, most, g.Need.Slots-most)
	}
	return fmt.Sprintf("no node that it may use has the %d MHz and %d MiB of one worker together with its slots", g.Need.CPU, g.Need.Memory)
}

// emptyRoom returns how many workers of a group the nodes would hold if they were empty, at
// most limit.
func (b *viewBuilder) emptyRoom(g *planner.Group, limit int) (n int) {
	node, there := -1, 0 // bins of one node share its CPU and memory
	for _, at := range g.Class.Places {
		if n >= limit {
			break
		}
		if at.Node != node {
			node, there = at.Node, 0
		}
		k := b.emptyHolds(at.Node, g.Need) - there
		if g.Need.Slots > 0 {
			k = min(k, b.totals[at.Node][at.Bin]/g.Need.Slots)
		}
		if g.Spread {
			k = min(k, 1-there)
		}
		if k > 0 {
			there += k
			n += k
		}
	}
	return min(n, limit)
}

// emptyHolds returns how many workers the CPU and memory of an empty node hold.
func (b *viewBuilder) emptyHolds(node int, need placement.Need) int {
	n := b.store.nodes[b.view.Nodes[node].ID]
	holds := mostAmount
	if need.CPU > 0 {
		holds = min(holds, n.cpu/need.CPU)
	}
	if need.Memory > 0 {
		holds = min(holds, n.memory/need.Memory)
	}
	return holds
}
