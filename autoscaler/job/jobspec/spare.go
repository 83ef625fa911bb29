// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import "fmt"

// spares checks that the groups that the autoscaler scales do not contain spare hosts, because
// it counts workers that train. A job with spare_hosts = 1 needs one additional worker in a
// group without a kolo block.
func (r *reader) spares() {
	where, spares, fixed := "", 0, 0
	for _, g := range r.job.TaskGroups {
		for _, t := range g.Tasks {
			n := configured(t, "spare_hosts")
			switch {
			case n == 0:
			case !enabled(g):
				fixed += deref(g.Count, 1)
			case n > spares:
				where, spares = fmt.Sprintf("group %q: task %q: config.spare_hosts", deref(g.Name, ""), t.Name), n
			}
		}
	}
	switch {
	case spares == 0:
	case fixed != spares:
		r.problem(where, fmt.Sprintf("needs a count of %d in groups with spare_hosts and without a kolo block, because a kolo block counts workers that train; their count is %d", spares, fixed),
			fmt.Sprintf("add a group with the same task and service, no kolo block, and count = %d; or remove spare_hosts", spares))
	case r.spec.CanWait:
		r.problem(where, "while the job waits or is suspended with no workers, the spare host would train alone", "set scaling { min = 1 }, or remove spare_hosts")
	}
}
