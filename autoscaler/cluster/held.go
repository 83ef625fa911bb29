// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "github.com/hashicorp/nomad/api"

// amounts are what tasks hold: MHz and MiB.
type amounts struct{ cpu, memory int }

func (a *amounts) add(b amounts) {
	a.cpu += b.cpu
	a.memory += b.memory
}

// held adds up what the tasks of an allocation hold as Nomad's scheduler does
// (structs.AllocatedResources.Comparable): tasks of phases that follow one
// another share what the largest phase needs, except for reserved cores.
type held struct{ prestart, main, poststop, reserved amounts }

// add adds a task; l is nil for a main one.
func (h *held) add(l *api.TaskLifecycle, task amounts, cores bool) {
	if cores {
		h.reserved.cpu += task.cpu
		task.cpu = 0
	}
	switch {
	case l == nil || l.Hook == "" || l.Hook == api.TaskLifecycleHookPoststart:
		h.main.add(task)
	case l.Hook == api.TaskLifecycleHookPrestart:
		h.prestart.add(task)
		if l.Sidecar {
			h.main.add(task)
		}
	case l.Hook == api.TaskLifecycleHookPoststop:
		h.poststop.add(task)
	}
}

func (h *held) all() amounts {
	return amounts{
		cpu:    max(h.main.cpu, h.prestart.cpu, h.poststop.cpu) + h.reserved.cpu,
		memory: max(h.main.memory, h.prestart.memory, h.poststop.memory),
	}
}
