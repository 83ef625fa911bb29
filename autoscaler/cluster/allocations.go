// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"iter"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Allocation holds what the account of usage needs to know of an allocation.
type Allocation struct {
	ID      string
	Job     identity.JobKey
	Slots   int // 0 if its job or its resources are not known, or its group is not elastic or holds none
	Created time.Time
	Ended   time.Time // zero if it holds its slots
	Failed  bool      // it failed, or was lost with its node
}

// Allocations calls visit for each allocation that Nomad lists. pools returns the
// configuration of a node pool. visit must not call the watcher.
func (w *Watcher) Allocations(pools func(string) config.Pool, visit func(*Allocation)) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, a := range w.store.allocs {
		visit(&Allocation{ID: a.id, Job: a.job, Slots: w.store.slots(a, pools), Created: a.created, Ended: a.ended, Failed: a.failed})
	}
}

// Live returns those of some allocations that are the job's and have not ended.
func (w *Watcher) Live(key identity.JobKey, allocs iter.Seq[string]) (out []string) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for id := range allocs {
		if a := w.store.allocs[id]; a != nil && a.job == key && !a.over {
			out = append(out, id)
		}
	}
	return out
}

// NodeOf returns the name of the node of an allocation. known is false if the allocation is not
// the job's, or has ended.
func (w *Watcher) NodeOf(key identity.JobKey, alloc string) (name string, known bool) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	a := w.store.allocs[alloc]
	if a == nil || a.job != key || a.over {
		return "", false
	}
	if n := w.store.nodes[a.node]; n != nil {
		name = n.Name
	}
	return name, true
}

// slots returns the number of slots of its pool that an allocation of an elastic
// group holds.
func (s *store) slots(a *alloc, pools func(string) config.Pool) int {
	j := s.jobs[a.job]
	if j == nil || a.bare {
		return 0
	}
	g := slices.IndexFunc(j.groups, func(g jobGroup) bool { return g.elastic && g.name == a.group })
	if g < 0 {
		return 0
	}
	pool := pools(j.pool)
	if pool.CPUSlot > 0 {
		return max(1, (a.cpu+pool.CPUSlot-1)/pool.CPUSlot)
	}
	n := 0
	for _, d := range a.devices {
		if matches(d.group, pool.Device) {
			n += len(d.ids)
		}
	}
	if n == 0 && j.groups[g].device == "" {
		return 0 // such as a server in a gang
	}
	return max(1, n)
}

// GPU is a GPU that an allocation holds.
type GPU struct {
	ID    string // as the device plugin names it: NVIDIA's UUID
	Node  string // ID
	Alloc string
	Job   identity.JobKey
}

func (a *alloc) gpus() (held []GPU) {
	for _, d := range a.devices {
		if !matches(d.group, "gpu") {
			continue
		}
		for _, id := range d.ids {
			held = append(held, GPU{ID: id, Node: a.node, Alloc: a.id, Job: a.job})
		}
	}
	return held
}

// GPUs returns the GPUs that allocations of all jobs hold, elastic or not.
func (w *Watcher) GPUs() (held []GPU) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, a := range w.store.allocs {
		if !a.over {
			held = append(held, a.gpus()...)
		}
	}
	return held
}
