// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// View is the state of the cluster at one moment. Its planner.Cluster does not contain data
// about the past, such as holds, counts set by hand and failed placements. The caller adds
// these.
type View struct {
	planner.Cluster
	Facts      []Facts         // about Cluster.Jobs, in the same order
	Ineligible []IneligibleJob // jobs that ask for Kolo and are not managed
	Blocked    []Blocked       // other jobs that wait for room
	Rigid      []Rigid         // other jobs that hold slots of a divided pool
	// Others is the number of workers of each job that is not elastic, without stopping ones.
	Others map[identity.JobKey]int

	// Topologies holds the topologies of the node pools that have nodes, by name.
	Topologies map[string]*Topology
}

// Pools returns the names of the node pools that have nodes or jobs, sorted.
func (v *View) Pools() []string {
	names := map[string]bool{}
	for i := range v.Nodes {
		names[v.Nodes[i].Pool] = true
	}
	for i := range v.Jobs {
		names[v.Jobs[i].Pool] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Facts holds the information on a job that policies and users need.
type Facts struct {
	history.Observation
	Spec     *jobspec.Spec // limited to what the operator's rules grant
	Tenant   string        // tenant that the job counts for: a queue that the operator configured, or the namespace
	Queue    string        // queue of a divided pool that the job is in; "" is none
	Notes    []string      // what was limited
	Type     string        // device type as policies see it, "" is any
	Status   string        // in Nomad
	Failed   bool          // Nomad gave up the job while it wanted workers
	Services []string      // names of the groups' services
	Newest   uint64        // CreateIndex of the newest worker that Nomad does not stop
}

// IneligibleJob is a job that has a kolo block, but that the autoscaler does not manage.
type IneligibleJob struct {
	Key      identity.JobKey
	Count    int
	Group    string // of the first elastic group, for the scaling event
	Pool     string
	Stopped  bool
	Problems problem.List
	Off      bool // the user's own switch is off, or the job is stopped
}

// Blocked is a job that waits for slots and is not elastic.
type Blocked struct {
	Key            identity.JobKey
	Pool           string
	Queue          string // of a divided pool that the job's namespace is in; "" is none
	Priority       int
	Workers, Slots int // without a place
	Worker         int // slots of the smallest of these workers

	// The caller sets how many slots elastic jobs keep free for it, and why it waits.
	Room     int
	Wait     waiting.Reason
	Sentence string
}

// Rigid is a job that is not elastic and holds slots of a pool that is divided between
// queues.
type Rigid struct {
	Key   identity.JobKey
	Pool  string
	Queue string // that the job's namespace is in; "" is none
	Slots int
}

// View returns the state that is known now.
func (w *Watcher) View(pools func(string) config.Pool) (*View, error) {
	if !w.Ready() {
		return nil, ErrNotReady
	}
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &viewBuilder{store: s, pools: pools, view: &View{Others: map[identity.JobKey]int{}}, cache: &w.classes, used: map[classKey]*planner.Class{}, paths: map[*planner.Class][]int{}, rigid: map[rigidKey]int{}}
	b.nodes()
	b.topologies(&w.trees)
	b.jobs()
	b.allocs()
	b.finish()
	b.cache.classes = b.used
	if len(b.undetailed) > 0 {
		w.askDetails(b.undetailed)
	}
	for _, m := range b.moved {
		w.log.Warn("a node is at another place in the topology; workers on it stay", "node", m.name, "from", m.from, "to", m.to)
	}
	for _, l := range b.unset {
		w.log.Warn("no node of the pool has a value of a level of its topology; jobs that must not cross it are not scaled", "pool", l.pool, "level", l.name)
	}
	return b.view, nil
}

// viewBuilder builds one View.
type viewBuilder struct {
	store *store
	pools func(string) config.Pool
	view  *View
	cache *classCache

	nodeAt     map[string]int
	binAt      []map[string]int // by node: device group to bin
	totals     [][]int          // slots by node and bin, free or held
	jobAt      map[identity.JobKey]int
	types      map[string][]string // device groups by pool
	undetailed []string
	moved      []movedNode
	unset      []levelOf
	used       map[classKey]*planner.Class // the cache keeps no others
	paths      map[*planner.Class][]int
	rigid      map[rigidKey]int // slots or, in pools that count CPU, MHz
}

func (b *viewBuilder) nodes() {
	b.nodeAt = make(map[string]int, len(b.store.nodes))
	b.types = map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(b.store.nodes)) {
		n := b.store.nodes[id]
		pool := b.pools(n.NodePool)
		out := planner.Node{ID: id, Name: n.Name, Pool: n.NodePool, NodeClass: short(n.NodeClass), CPU: n.cpu, Memory: n.memory}
		switch {
		case n.Status != api.NodeStatusReady || n.Drain:
			out.State = planner.Draining
		case n.SchedulingEligibility != api.NodeSchedulingEligible:
			out.State = planner.Ineligible
		}
		if pool.Pack == config.PackNode {
			if b.view.Packed == nil {
				b.view.Packed = map[string]bool{}
			}
			b.view.Packed[n.NodePool] = true
		}
		bins := map[string]int{}
		var totals []int
		if pool.CPUSlot > 0 {
			out.Bins = []planner.Bin{{}} // set once all CPU held by other jobs is known
			totals = []int{max(0, n.cpu) / pool.CPUSlot}
		}
		for _, g := range n.groups {
			if pool.CPUSlot > 0 || !matches(g.id, pool.Device) {
				continue
			}
			bins[g.id] = len(out.Bins)
			out.Bins = append(out.Bins, planner.Bin{Type: g.id, Slots: g.healthy})
			totals = append(totals, g.healthy+len(g.sick))
			if !slices.Contains(b.types[n.NodePool], g.id) {
				b.types[n.NodePool] = append(b.types[n.NodePool], g.id)
			}
		}
		b.nodeAt[id] = len(b.view.Nodes)
		b.view.Nodes = append(b.view.Nodes, out)
		b.binAt, b.totals = append(b.binAt, bins), append(b.totals, totals)
	}
}

func (b *viewBuilder) jobs() {
	b.jobAt = make(map[identity.JobKey]int, len(b.store.jobs))
	// The policy's order is by submission, but scaling changes that time; the creation
	// index does not change.
	jobs := slices.SortedFunc(maps.Values(b.store.jobs), func(x, y *job) int {
		return cmp.Or(cmp.Compare(x.create, y.create), strings.Compare(x.key.String(), y.key.String()))
	})
	if b.cache.gen != b.store.nodesGen || b.cache.classes == nil {
		b.cache.gen, b.cache.classes = b.store.nodesGen, map[classKey]*planner.Class{}
	}
	for _, j := range jobs {
		if !j.elastic {
			continue
		}
		problems := slices.Clone(j.problems)
		if j.spec != nil {
			problems = append(problems, jobspec.Bounded(b.unfit(j))...)
		}
		if j.spec == nil || len(problems) > 0 {
			b.ineligible(j, problems)
			continue
		}
		b.jobAt[j.key] = len(b.view.Jobs)
		b.job(j)
	}
}

// unfit returns the problems of a job with its node pool.
func (b *viewBuilder) unfit(j *job) problem.List {
	pool := b.pools(j.pool)
	holder := j.spec.Holder()
	device, where := holder.Device, fmt.Sprintf("group %q", holder.Name)
	switch {
	case pool.CPUSlot > 0 && device != "":
		return problem.List{{Field: where, Text: fmt.Sprintf("requests device %q, but slots of node pool %q are counted in CPU", device, j.pool),
			Remedy: "remove the device block, or configure device instead of cpu_slot for the pool"}}
	case pool.CPUSlot == 0 && device == "":
		return problem.List{{Field: where, Text: fmt.Sprintf("requests no device, but slots of node pool %q are counted in %q", j.pool, pool.Device),
			Remedy: "add a device block, or configure cpu_slot for the pool"}}
	}
	if problems := barred(j, pool); problems != nil {
		return problems
	}
	if problems := b.unbound(j, pool); problems != nil {
		return problems
	}
	for _, g := range j.spec.Groups {
		if pool.CPUSlot > 0 && g.Cores > 0 {
			// A core's MHz depend on the node, so the worker's size in slots would
			// depend on its placement.
			return problem.List{{Field: fmt.Sprintf("group %q", g.Name), Text: fmt.Sprintf("reserves cores, but slots of node pool %q are counted in MHz", j.pool),
				Remedy: "write cpu in place of cores"}}
		}
	}
	return nil
}

func (b *viewBuilder) ineligible(j *job, problems problem.List) {
	a := IneligibleJob{Key: j.key, Pool: j.pool, Stopped: j.stopped, Problems: problems, Off: len(problems) == 0}
	for _, g := range j.groups {
		a.Count += g.count
	}
	if len(j.groups) > 0 {
		a.Group = j.groups[0].name
	}
	b.view.Ineligible = append(b.view.Ineligible, a)
}

func (b *viewBuilder) job(j *job) {
	pool := b.pools(j.pool)
	s, notes := ruled(j, pool)
	out := planner.Job{
		Key: j.key, Pool: j.pool, Index: j.change, Priority: s.Priority,
		Min: s.Min, Max: s.Max, Sizes: s.Sizes, Preemptible: s.Preemptible, Ratio: s.Ratio,
	}
	out.Locality = b.locality(j, pool)
	f := Facts{
		Observation: history.Observation{
			Created: j.create, Version: j.version, Changed: j.change, Submitted: j.submitted,
			Batch: j.typ == api.JobTypeBatch, Stopped: j.stopped, Counts: map[string]int{}, Unit: s.Unit(),
		},
		Spec: s, Tenant: tenant(j, pool), Queue: pool.QueueOf(j.key.Namespace, s.Queue), Notes: notes, Status: j.status, Type: b.typeOf(j.pool, s.Holder().Device),
	}
	if j.stopped {
		out.HoldReason, out.Stopped = "the job is stopped", true
	}
	for k, sg := range s.Groups {
		i := slices.IndexFunc(j.groups, func(g jobGroup) bool { return g.name == sg.Name })
		g := j.groups[i]
		need := placement.Need{Slots: max(1, g.slots), CPU: g.cpu, Memory: g.memory}
		switch {
		case pool.CPUSlot > 0:
			need.Slots = max(1, (g.cpu+pool.CPUSlot-1)/pool.CPUSlot)
		case sg.Device == "": // in a gang
			need.Slots = 0
		}
		if s.Ratio == nil {
			f.Slots = need.Slots
		} else {
			f.Slots += s.Ratio[k] * need.Slots
		}
		f.Counts[g.name] = g.count
		if sg.Service != "" && !slices.Contains(f.Services, sg.Service) {
			f.Services = append(f.Services, sg.Service)
		}
		class := b.class(g.class)
		group := planner.Group{Name: g.name, Count: g.count, Min: sg.Min, Max: sg.Max, Need: need, Spread: g.distinct, Class: class}
		if pool.Aware {
			group.Path = b.path(j.pool, class)
		}
		out.Groups = append(out.Groups, group)
	}
	b.view.Jobs = append(b.view.Jobs, out)
	b.view.Facts = append(b.view.Facts, f)
}

// typeOf returns the only device type that a job with this ask can get, or "" if it
// takes any type of the pool, or several.
func (b *viewBuilder) typeOf(pool, ask string) string {
	var fit []string
	for _, id := range b.types[pool] {
		if matches(id, ask) {
			fit = append(fit, id)
		}
	}
	if len(fit) == 1 && len(b.types[pool]) > 1 {
		return fit[0]
	}
	return ""
}
