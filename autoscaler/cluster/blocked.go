// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"slices"
	"strings"
)

// finish makes CPU slots, and counts what others wait for.
func (b *building) finish() {
	for i := range b.view.Nodes {
		n := &b.view.Nodes[i]
		if slot := b.pools(n.Pool).CPUSlot; slot > 0 {
			n.Bins[0].Slots = max(0, n.CPU) / slot
		}
	}
	for i := range b.view.Jobs {
		j, f := &b.view.Jobs[i], &b.view.Facts[i]
		f.Failed = f.Status == "dead" && j.Count() > 0 && j.Alive() == 0 && f.Completed == 0
	}
	b.blocked()
}

func (b *building) blocked() {
	for _, e := range b.store.evals {
		if _, elastic := b.jobAt[e.job]; elastic {
			continue
		}
		j := b.store.jobs[e.job]
		if j == nil || j.stopped {
			continue
		}
		pool := b.pools(j.pool)
		out := Blocked{Key: j.key, Pool: j.pool, Priority: j.priority}
		for _, g := range j.groups {
			n := e.queued[g.name]
			switch {
			case pool.CPUSlot > 0 && g.slots == 0:
				out.Slots += n * ((g.cpu + pool.CPUSlot - 1) / pool.CPUSlot)
			case pool.CPUSlot == 0 && g.slots > 0 && b.served(j.pool, g.device):
				out.Slots += n * g.slots
			}
		}
		if out.Slots > 0 {
			b.view.Blocked = append(b.view.Blocked, out)
		}
	}
	slices.SortFunc(b.view.Blocked, func(x, y Blocked) int {
		if x.Priority != y.Priority {
			return y.Priority - x.Priority
		}
		return strings.Compare(x.Key.String(), y.Key.String())
	})
}

// served says whether any device group of the pool serves the ask.
func (b *building) served(pool, ask string) bool {
	return slices.ContainsFunc(b.types[pool], func(id string) bool {
		p := strings.SplitN(id, "/", 3)
		return (deviceGroup{vendor: p[0], kind: p[1], name: p[2]}).matches(ask)
	})
}
