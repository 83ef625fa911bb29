// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Machine describes a node and the slots held on it, for display. No decision depends on it.
type Machine struct {
	ID, Name, Pool, Class string
	State                 string // as Nomad reports: ready, ineligible, draining, down, disconnected, initializing
	Total                 int    // slots, including those of unhealthy devices
	Devices               []Instance
	Held                  []Held // by all jobs, elastic or not
}

// Instance is a device of a node that counts as a slot.
type Instance struct {
	ID    string
	Group string // vendor/type/name
	Sick  bool
	Why   string // why it is unhealthy, as reported by the device plugin
}

// Held describes the slots that one allocation holds on a node.
type Held struct {
	Alloc   string
	Job     identity.JobKey
	Group   string
	Elastic bool
	Ending  bool // Nomad is stopping it
	Slots   int
	Devices []string // ids
	Created time.Time
}

// Machines returns all nodes by name. pools returns the configuration of a node pool.
func (w *Watcher) Machines(pools func(string) config.Pool) []Machine {
	return w.machines(nil, pools)
}

// MachinesOf returns the nodes on which a job holds slots, with what the job holds there.
func (w *Watcher) MachinesOf(key identity.JobKey, pools func(string) config.Pool) []Machine {
	return w.machines(&key, pools)
}

// machines returns all nodes with what all jobs hold or, if only is not nil, those of one job.
func (w *Watcher) machines(only *identity.JobKey, pools func(string) config.Pool) []Machine {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[string][]Held{}
	for _, a := range s.allocs {
		n := s.nodes[a.node]
		if a.over || n == nil || only != nil && a.job != *only {
			continue
		}
		if h := s.held(a, n, pools); h.Slots > 0 {
			held[a.node] = append(held[a.node], h)
		}
	}
	var out []Machine
	for id, n := range s.nodes {
		if only != nil && held[id] == nil {
			continue
		}
		m := Machine{ID: id, Name: n.Name, Pool: n.NodePool, Class: short(n.NodeClass), State: n.state(), Held: held[id]}
		pool := pools(n.NodePool)
		if pool.CPUSlot > 0 {
			m.Total = max(0, n.cpu) / pool.CPUSlot
		} else {
			m.Devices = n.instances(pool.Device)
			m.Total = len(m.Devices)
		}
		slices.SortFunc(m.Held, func(a, b Held) int {
			return cmp.Or(cmp.Compare(a.Job.Namespace, b.Job.Namespace), cmp.Compare(a.Job.ID, b.Job.ID), cmp.Compare(a.Alloc, b.Alloc))
		})
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Machine) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out
}

// held returns the slots that an allocation holds on its node.
func (s *store) held(a *alloc, n *node, pools func(string) config.Pool) Held {
	h := Held{Alloc: a.id, Job: a.job, Group: a.group, Ending: a.ending, Created: a.created, Slots: s.slots(a, pools)}
	h.Elastic = h.Slots > 0
	pool := pools(n.NodePool)
	for _, d := range a.devices {
		if matches(d.group, pool.Device) && pool.CPUSlot == 0 {
			h.Devices = append(h.Devices, d.ids...)
		}
	}
	if !h.Elastic {
		h.Slots = len(h.Devices)
		if pool.CPUSlot > 0 {
			h.Slots = (a.cpu + pool.CPUSlot - 1) / pool.CPUSlot
		}
	}
	return h
}

// state returns one word for the state of a node.
func (n *node) state() string {
	switch {
	case n.Status != api.NodeStatusReady:
		return n.Status
	case n.Drain:
		return "draining"
	case n.SchedulingEligibility != api.NodeSchedulingEligible:
		return "ineligible"
	}
	return n.Status
}

// instances returns the node's devices that match an ask.
func (n *node) instances(ask string) (out []Instance) {
	for _, g := range n.groups {
		if !matches(g.id, ask) {
			continue
		}
		for _, id := range g.ids {
			why, sick := g.sick[id]
			out = append(out, Instance{ID: id, Group: g.id, Sick: sick, Why: why})
		}
	}
	return out
}
