// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
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
		if n, first := w.read.Agent.Restart.SpareHosts, rings[name].first.read.Agent.Restart.SpareHosts; n != first {
			c.errorf("counts", c.fieldAt(w, inConfig+"spare_hosts"), "spare_hosts = %d: another group of its service has %d, and the agent that leads decides; set the same value in all groups", n, first)
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
	c.checkSpares(workers)
}

// checkSpares checks that spare hosts of kolo-worker are in a group of their own, as package
// jobspec does for the task driver, which has no flags.
func (c *checker) checkSpares(workers []*worker) {
	fixed := 0
	for _, w := range workers {
		if w.read.Agent.Restart.SpareHosts > 0 && !jobspec.GroupAsks(w.group) {
			fixed += min(deref(w.group.Count, 1), maxProcesses)
		}
	}
	for _, w := range workers {
		if n := w.read.Agent.Restart.SpareHosts; n > 0 && n != fixed && !w.native && jobspec.GroupAsks(w.group) {
			c.errorf("kolo", c.fieldAt(w, inConfig+"spare_hosts"), "spare_hosts = %d: a kolo block counts workers that train, and the count of groups with spare_hosts and without a kolo block is %d; "+
				"add a group with the same task and service, no kolo block, and count = %d; or remove spare_hosts", n, fixed, n)
		}
	}
}

func (c *checker) checkRing(r *ring) {
	t := r.first.read.Agent.Training
	spares := min(r.first.read.Agent.Restart.SpareHosts, maxProcesses)
	spec, _ := jobspec.Read(c.job) // koloBlock reports the problems
	if spec != nil {
		spares += spec.Spare
	}
	r.most = max(r.most-spares*min(r.first.read.Agent.Slots, maxProcesses), 0)
	can := fmt.Sprintf("the groups of its service can have at most %d, by count or scaling.max and the slots of an allocation", r.most)
	switch {
	case spec != nil && spec.Spare > 0:
		can += ", without the spares of the kolo block"
	case spares > 0:
		can += ", without spare_hosts"
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"min_np", t.MinNP}, {"np", t.NP}} {
		if n.value > r.most {
			c.errorf("counts", c.fieldAt(r.first, inConfig+n.name), "%s = %d: training waits for this many processes, and %s; lower it, or raise scaling.max", n.name, n.value, can)
			return
		}
	}
	if t.MaxNP > 0 && t.MaxNP < r.most && !r.first.unknown["max_np"] {
		c.warnf("counts", c.fieldAt(r.first, inConfig+"max_np"), "max_np = %d: more processes than that are never used, and %s; raise max_np, or lower scaling.max", t.MaxNP, can)
	}
}
