// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// store holds the known state of Nomad. Every object carries the index of its last
// change; an older version never replaces a newer one.
type store struct {
	mu     sync.Mutex
	nodes  map[string]*node
	allocs map[string]*alloc
	jobs   map[identity.JobKey]*job
	evals  map[string]*blocked // blocked evaluations of jobs that are not elastic

	// listed is the index of the last complete read of each list, by path. An object that
	// is neither newer nor in the list does not exist, even if an old event contains it.
	listed map[string]uint64

	nodesGen uint64              // incremented when nodes change; invalidates cached classes
	words    map[string]string   // a single copy of each repeated string
	sweepAt  int                 // number of words at which unused ones are dropped
	parts    map[string]struct{} // initial lists that have been read
	last     time.Time           // of the last answer of Nomad
}

type node struct {
	wireNode
	cpu, memory int // total without the part reserved for the system
	detailed    bool
	detailAt    uint64 // index of the attributes and metadata
	groups      []deviceGroup
}

type deviceGroup struct {
	id      string // vendor/type/name, which policies see as the type
	healthy int
	ids     []string          // of all instances
	sick    map[string]string // why instances are unhealthy, by id

	within map[string]string // position on the node: value by level
	link   topology.Link     // slowest link between two of its devices
}

// matches reports whether a device group serves an ask. An ask is a type, vendor/type, or
// a whole ID.
func matches(id, ask string) bool {
	p := strings.SplitN(id, "/", 3)
	return len(p) == 3 && (ask == p[1] || ask == p[0]+"/"+p[1] || ask == id)
}

type alloc struct {
	id, node, group string
	job             identity.JobKey
	over            bool // ended, successfully or not
	running         bool // its client reports that it runs
	ending          bool // Nomad is stopping it
	complete        bool // ended successfully by itself
	bare            bool // its resources are not known yet: a job's own list does not state them
	cpu, memory     int
	devices         []heldDevices
	index, made     uint64 // of the last change, and of its creation
	created         time.Time
	ended           time.Time // when it was over, zero if it is not
	failed          bool      // it is over because it failed or was lost
}

type heldDevices struct {
	group string // id
	ids   []string
}

// job is an elastic job, or one that waits for room. It holds only the needed facts, so
// that thousands of jobs stay small.
type job struct {
	key      identity.JobKey
	spec     *jobspec.Spec
	problems problem.List
	elastic  bool // asks for Kolo
	enabled  bool // and is switched on

	typ, pool, status      string
	stopped                bool
	priority               int
	version                uint64
	create, modify, change uint64 // indexes: creation, any change, change of the job itself
	submitted              time.Time
	groups                 []jobGroup

	queue queue // of a job that is not elastic
}

// queue holds how many workers of each group had no place at an index.
type queue struct {
	workers map[string]int
	index   uint64
}

// newQueue returns the queue in a job's summary; it is empty if there is no summary.
func newQueue(w *wireSummary) queue {
	if w == nil {
		return queue{}
	}
	q := queue{workers: make(map[string]int, len(w.Summary)), index: w.ModifyIndex}
	for group, of := range w.Summary {
		q.workers[group] = of.Queued
	}
	return q
}

type jobGroup struct {
	name        string
	count       int
	elastic     bool   // it has a kolo block
	slots       int    // devices of one worker
	device      string // the ask
	cpu, memory int
	class       classKey
	distinct    bool     // distinct_hosts
	drivers     []string // of its tasks
}

// blocked is an evaluation that waits for room, or waited until its index.
type blocked struct {
	job   identity.JobKey
	waits bool
	index uint64
}

func newStore() *store {
	return &store{
		nodes: map[string]*node{}, allocs: map[string]*alloc{}, jobs: map[identity.JobKey]*job{},
		evals: map[string]*blocked{}, words: map[string]string{}, parts: map[string]struct{}{}, listed: map[string]uint64{},
	}
}

// word returns the single stored copy of w.
func (s *store) word(w string) string {
	if k, ok := s.words[w]; ok {
		return k
	}
	if len(s.words) >= s.sweepAt {
		s.sweepWords()
	}
	w = strings.Clone(w)
	s.words[w] = w
	return w
}

// leastWords is how many words are kept without checking whether they are used.
const leastWords = 1024

// sweepWords drops unused words: jobs come and go, each with its own name.
func (s *store) sweepWords() {
	used := map[string]string{}
	use := func(words ...string) {
		for _, w := range words {
			used[w] = w
		}
	}
	for _, n := range s.nodes {
		for _, g := range n.groups {
			use(g.id)
			use(g.ids...)
			for _, v := range g.within {
				use(v)
			}
		}
	}
	for _, a := range s.allocs {
		use(a.node, a.group, a.job.Namespace, a.job.ID)
		for _, d := range a.devices {
			use(d.group)
			use(d.ids...)
		}
	}
	s.words, s.sweepAt = used, max(leastWords, 2*len(used))
}

// putNode stores a node and reports whether anything changed.
func (s *store) putNode(w *wireNode, detailed bool) bool {
	old := s.nodes[w.ID]
	if old != nil && (old.ModifyIndex > w.ModifyIndex || old.ModifyIndex == w.ModifyIndex && (!detailed || old.detailed && old.detailAt == w.ModifyIndex)) {
		return false
	}
	n := &node{wireNode: *w, detailed: detailed, detailAt: w.ModifyIndex}
	if !detailed && old != nil && old.detailed {
		n.Attributes, n.Meta, n.detailed, n.detailAt = old.Attributes, old.Meta, true, old.detailAt
	}
	n.Drain = w.Drain || len(w.DrainStrategy) > 0 && string(w.DrainStrategy) != "null"
	n.DrainStrategy = nil
	if r := w.NodeResources; r != nil {
		n.cpu, n.memory = r.CPU.CPUShares, r.Memory.MemoryMB
		for _, d := range r.Devices {
			g := deviceGroup{id: s.word(d.Vendor + "/" + d.Type + "/" + d.Name)}
			for _, i := range d.Instances {
				g.ids = append(g.ids, s.word(i.ID))
				if i.Healthy {
					g.healthy++
				} else {
					if g.sick == nil {
						g.sick = map[string]string{}
					}
					g.sick[i.ID] = short(i.HealthDescription)
				}
			}
			g.locate(d.Attributes, s.word)
			n.groups = append(n.groups, g)
		}
	}
	if r := w.ReservedResources; r != nil {
		n.cpu -= r.CPU.CPUShares
		n.memory -= r.Memory.MemoryMB
	}
	n.NodeResources, n.ReservedResources = nil, nil
	s.nodes[w.ID] = n
	s.nodesGen++
	return true
}

// putAlloc stores an allocation and reports whether anything changed.
func (s *store) putAlloc(w *wireAlloc) bool {
	old := s.allocs[w.ID]
	if old != nil && (old.index > w.ModifyIndex || old.index == w.ModifyIndex && (!old.bare || w.AllocatedResources == nil)) {
		return false
	}
	a := &alloc{
		id: w.ID, node: s.word(w.NodeID), group: s.word(w.TaskGroup),
		job:   identity.JobKey{Namespace: s.word(w.Namespace), ID: s.word(w.JobID)},
		index: w.ModifyIndex, made: w.CreateIndex, created: time.Unix(0, w.CreateTime),
		over:     ended(w.ClientStatus),
		running:  w.ClientStatus == api.AllocClientStatusRunning,
		ending:   w.DesiredStatus != api.AllocDesiredStatusRun,
		complete: w.ClientStatus == api.AllocClientStatusComplete && w.DesiredStatus == api.AllocDesiredStatusRun,
	}
	if a.over {
		a.failed = w.ClientStatus != api.AllocClientStatusComplete
		a.ended = time.Unix(0, w.ModifyTime)
		if old != nil && old.over {
			a.ended = old.ended // later changes are not about its end
		}
	}
	switch {
	case w.AllocatedResources != nil:
		var h held
		for name, t := range w.AllocatedResources.Tasks {
			h.add(w.AllocatedResources.TaskLifecycles[name], amounts{t.CPU.CPUShares, t.Memory.MemoryMB}, len(t.CPU.ReservedCores) > 0)
			for _, td := range t.Devices {
				d := heldDevices{group: s.word(td.Vendor + "/" + td.Type + "/" + td.Name)}
				for _, id := range td.DeviceIDs {
					d.ids = append(d.ids, s.word(id))
				}
				a.devices = append(a.devices, d)
			}
		}
		sum := h.all()
		a.cpu, a.memory = sum.cpu, sum.memory
	case old != nil:
		a.bare, a.cpu, a.memory, a.devices = old.bare, old.cpu, old.memory, old.devices
	default:
		a.bare = true
	}
	s.allocs[w.ID] = a
	return true
}

// putEval stores a blocked evaluation. An evaluation that is no longer blocked stays
// until a list drops it, so that an older list still in transit does not bring it back.
func (s *store) putEval(w *wireEval) bool {
	old := s.evals[w.ID]
	if old != nil && old.index >= w.ModifyIndex {
		return false
	}
	e := &blocked{job: identity.JobKey{Namespace: w.Namespace, ID: w.JobID}, waits: w.Status == api.EvalStatusBlocked, index: w.ModifyIndex}
	s.evals[w.ID] = e
	return e.waits || old != nil && old.waits
}

// waiting returns the jobs that have a blocked evaluation.
func (s *store) waiting() map[identity.JobKey]bool {
	out := map[identity.JobKey]bool{}
	for _, e := range s.evals {
		if e.waits {
			out[e.job] = true
		}
	}
	return out
}

// prune drops the objects that are missing from a list taken at index, unless they are
// newer than the list.
func prune[V any](m map[string]V, listed map[string]bool, index uint64, at func(V) uint64) bool {
	dropped := false
	for id, v := range m {
		if !listed[id] && at(v) <= index {
			delete(m, id)
			dropped = true
		}
	}
	return dropped
}
