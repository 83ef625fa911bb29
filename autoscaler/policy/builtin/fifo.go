// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// fifo starts jobs in order of arrival at their preferred size and does not change
// them until they end. It is the baseline of nearly every scheduling paper. With
// Strict, no job overtakes the head of the queue; without it (backfill), later jobs
// overtake one that does not fit. Papers call both FIFO, and the difference is large.
type fifo struct {
	Strict bool `hcl:"strict,optional" doc:"no job overtakes the first waiting job; false lets later jobs fill the gap (backfill)"`
}

var fifoEntry = registry.Define(registry.Info{
	Name:   "fifo",
	Doc:    "Jobs start in order of arrival at their preferred size (all or nothing) and keep it until they end.",
	Source: "textbook gang FIFO; with strict = false the skip variant of Schedulearn and Voda",
	Needs:  "nothing",
}, fifo{}, fifo.allocate)

func (f fifo) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	for _, p := range pools {
		p.hold(true)
		p.gang(p.byPriority(nil), f.Strict, "its turn in order of arrival")
	}
	settle(&d, pools)
	return d
}

// hold keeps running jobs at their current size or the nearest allowed one below,
// or at their minimum if the capacity shrank. If all is false, it holds only the
// jobs that must not be suspended. A job that started at less than its wanted size
// still wants the rest.
func (p *pool) hold(all bool) {
	for _, c := range p.jobs {
		if c.Count > 0 && (all || c.pinned) && p.set(c, c.low) {
			c.why = "runs to its end"
		}
	}
	for _, c := range p.jobs {
		if c.n == 0 {
			continue
		}
		if n := c.floor(c.Count); n > c.n {
			p.set(c, n)
		}
		c.want = max(c.want, c.n)
	}
}
