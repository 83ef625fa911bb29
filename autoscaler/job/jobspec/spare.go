// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// spares checks the job's spare hosts. The autoscaler itself adds those of the key spare. A job
// with spare_hosts = 1 in the driver's configuration keeps a spare for good, in an additional
// group that the autoscaler does not scale, because it counts workers that train.
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
	key, none := r.kolo.spare, r.takesNoSpare()
	r.spec.Lendable = !key.set && spares == 0 && fixed == 0 && len(none) == 0
	switch {
	case key.value > 0 && (spares > 0 || fixed > 0):
		r.problem(key.where, "it contradicts spare_hosts in the configuration of a task, whose number of spares never changes", "remove one of them")
	case key.value > 0:
		r.problems = append(r.problems, none...)
	case spares == 0:
	case fixed != spares:
		r.problem(where, fmt.Sprintf("needs a count of %d in groups with spare_hosts and without a kolo block, because a kolo block counts workers that train; their count is %d", spares, fixed),
			fmt.Sprintf("add a group with the same task and service, no kolo block, and count = %d; or remove spare_hosts", spares))
	case r.spec.CanWait:
		r.problem(where, "while the job waits or is suspended with no workers, the spare host would train alone", "set scaling { min = 1 }, or remove spare_hosts")
	}
}

// takesNoSpare returns why the job can't have spares that the autoscaler adds.
func (r *reader) takesNoSpare() (why problem.List) {
	where := r.kolo.spare.where
	if r.spec.Ratio != nil {
		why.Add(where, nil, "groups in a gang have no spares, because a spare can replace only a worker of its own group", "remove spare, or gang and ratio")
	}
	for _, g := range r.job.TaskGroups {
		if !enabled(g) {
			continue
		}
		for _, t := range g.Tasks {
			at := fmt.Sprintf("group %q: task %q", deref(g.Name, ""), t.Name)
			switch mode, _ := t.Config["mode"].(string); {
			case t.Driver == "horovod":
				why.Add(where, nil, at+" has driver \"horovod\", whose processes are started for one rank and replace no other", "remove spare, or train with driver = \"torch\"")
			case mode == "restart":
				why.Add(where, nil, at+" has mode = \"restart\", in which a process is started for one rank and replaces no other", "remove one of them")
			}
		}
	}
	for _, g := range r.spec.Groups {
		if g.Service == "" {
			why.Add(where, nil, fmt.Sprintf("group %q has no service of provider \"nomad\", at which its task reports that it takes spares", g.Name), "add the service of the task's setting service")
		}
	}
	return why
}
