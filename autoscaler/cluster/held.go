// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "github.com/hashicorp/nomad/api"

// amounts is the CPU in MHz and the memory in MiB that tasks hold.
type amounts struct{ cpu, memory int }

func (a *amounts) add(b amounts) {
	a.cpu += b.cpu
	a.memory += b.memory
}

// held adds up the resources of an allocation's tasks like Nomad's scheduler
// (structs.AllocatedResources.Comparable). Phases that follow each other share the
// resources of the largest one, except reserved cores.
type held struct{ prestart, main, poststop, reserved amounts }

// add adds a task; l is nil for a main task.
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
