// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
)

// maxProcesses bounds the sums below.
const maxProcesses = 1 << 30

// ring holds all groups that train together because they name the same service.
type ring struct {
	first *worker
	// most is the largest possible number of processes.
	most int
}

// checkCounts compares the configured numbers of processes of each ring with the
// counts that its groups allow.
func (c *checker) checkCounts(workers []*worker) {
	rings := map[string]*ring{}
	for _, w := range workers {
		if w.read == nil || w.refused || w.unknown["slots"] {
			return
		}
		name := w.read.Agent.Service
		if rings[name] == nil {
			rings[name] = &ring{first: w}
		}
		most := deref(w.group.Count, 1)
		if s := w.group.Scaling; s != nil {
			most = int(min(max(deref(s.Max, 0), int64(most)), maxProcesses))
		}
		slots := min(w.read.Agent.Slots, maxProcesses)
		rings[name].most = min(rings[name].most+min(most, maxProcesses)*slots, maxProcesses)
	}
	for _, name := range slices.Sorted(maps.Keys(rings)) {
		c.checkRing(rings[name])
	}
}

func (c *checker) checkRing(r *ring) {
	t := r.first.read.Agent.Training
	can := fmt.Sprintf("the groups of its service can have at most %d, by count or scaling.max and the slots of an allocation", r.most)
	for _, n := range []struct {
		name  string
		value int
	}{{"min_np", t.MinNP}, {"np", t.NP}} {
		if n.value > r.most {
			c.errorf("counts", c.fieldAt(r.first, inConfig+n.name), "%s = %d: training waits for so many processes, and %s; lower it, or raise scaling.max", n.name, n.value, can)
			return
		}
	}
	if t.MaxNP > 0 && t.MaxNP < r.most && !r.first.unknown["max_np"] {
		c.warnf("counts", c.fieldAt(r.first, inConfig+"max_np"), "max_np = %d: more processes than that are never used, and %s; raise max_np, or lower scaling.max", t.MaxNP, can)
	}
}
