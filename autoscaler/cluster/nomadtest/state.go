// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Cluster holds the state of the stand-in. Its methods may be called concurrently.
type Cluster struct {
	// StopDelay is how long a stopped worker continues to run.
	StopDelay time.Duration
	// Fault, if set, may answer a request instead of the cluster, by returning a
	// status other than 0. It may also block.
	Fault func(method, path string) int
	// OnScale, if set, is called for every accepted scale, under the lock.
	OnScale func(job, group string, from, to int)

	mux    *http.ServeMux
	mu     sync.Mutex
	index  uint64
	tables map[string]*table
	moved  chan struct{} // closed and replaced when index moves
	nodes  map[string]*Node
	order  []string // of nodes
	jobs   map[string]*Job
	allocs map[string]*Alloc
	byJob  map[string]map[string]*Alloc
	full   int                       // nodes before this index in order have no room
	evals  map[string]*eval          // blocked ones, by job
	made   uint64                    // evaluations so far
	queued map[string]map[string]int // workers that wait for a place, by job and group
	counts map[string]uint64         // index of the job's summary
	vars   map[string]*variable
	scales map[[2]string][]api.ScalingEvent // by job and group
	subs   map[chan []byte]struct{}
	recent [][]byte         // events sent first to a new subscription
	mute   bool             // emit nothing
	denied string           // token
	open   bool             // access control is off
	tokens map[string]Token // by secret, nil for any

	varsMoved chan struct{}                // closed and replaced when a variable changes
	tags      map[string]map[uint64]string // by job and version
	calls     int
	writes    int
}

// New returns an empty cluster.
func New() *Cluster {
	c := &Cluster{
		index: 10, moved: make(chan struct{}), varsMoved: make(chan struct{}),
		tables: map[string]*table{"nodes": {}, "allocs": {}, "jobs": {}, "evals": {}, "policies": {}, "namespaces": {}},
		nodes:  map[string]*Node{}, jobs: map[string]*Job{}, allocs: map[string]*Alloc{}, byJob: map[string]map[string]*Alloc{}, evals: map[string]*eval{},
		queued: map[string]map[string]int{}, counts: map[string]uint64{},
		vars: map[string]*variable{}, tags: map[string]map[uint64]string{}, scales: map[[2]string][]api.ScalingEvent{}, subs: map[chan []byte]struct{}{},
	}
	c.mux = c.serve()
	return c
}

// bump increments the index and sets it for some tables. The caller holds c.mu.
func (c *Cluster) bump(tables ...string) uint64 {
	c.index++
	for _, t := range tables {
		c.tables[t].index, c.tables[t].items = c.index, nil
	}
	close(c.moved)
	c.moved = make(chan struct{})
	return c.index
}

// eventBuffer is how many events Nomad keeps by default.
const eventBuffer = 100

func (c *Cluster) emit(topic, kind, key string, payload map[string]any) {
	if c.mute {
		return
	}
	text, err := json.Marshal(map[string]any{"Index": c.index, "Events": []any{map[string]any{
		"Topic": topic, "Type": kind, "Key": key, "Index": c.index, "Payload": payload,
	}}})
	if err != nil {
		panic(err) // a mistake in this package
	}
	text = append(text, '\n')
	c.recent = append(c.recent, text)
	c.recent = c.recent[max(0, len(c.recent)-eventBuffer):]
	for s := range c.subs {
		select {
		case s <- text:
		default: // a slow reader misses events, as with Nomad
		}
	}
}

// AddNodes adds n ready nodes to the default pool, each with the given number of
// GPUs.
func (c *Cluster) AddNodes(n, gpus int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		i := len(c.order)
		node := &Node{
			ID: fmt.Sprintf("%08x-0000-0000-0000-000000000000", i), Name: fmt.Sprintf("n%d", i), Pool: "default", Model: "stand-in",
			GPUs: gpus, CPU: 64000, State: api.NodeStatusReady, Eligible: true, taken: map[string]string{}, busy: map[string]int{},
		}
		for g := range gpus {
			node.ids = append(node.ids, fmt.Sprintf("GPU-%d-%d", i, g))
		}
		c.nodes[node.ID] = node
		c.order = append(c.order, node.ID)
		node.index = c.bump("nodes")
		c.emit("Node", "NodeRegistration", node.ID, map[string]any{"Node": node.detail()})
	}
	c.schedule()
}

// ChangeNode edits a node by its number.
func (c *Cluster) ChangeNode(i int, edit func(*Node)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[c.order[i]]
	edit(n)
	c.full = 0
	n.index = c.bump("nodes")
	c.emit("Node", "NodeEvent", n.ID, map[string]any{"Node": n.detail()})
	if n.State == api.NodeStatusDown {
		for _, a := range c.allocs {
			if a.Node == n.ID && a.live() {
				c.end(a, api.AllocClientStatusLost, api.AllocDesiredStatusStop)
			}
		}
	}
	c.schedule()
}

// Register adds or replaces a job, as `nomad job run` does.
func (c *Cluster) Register(j Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.bump("jobs", "policies")
	j.create, j.change, j.index, j.submitted = i, i, i, time.Now().UnixNano()
	if old := c.jobs[j.ID]; old != nil {
		j.create, j.version = old.create, old.version+1
	}
	if j.Group == "" {
		j.Group = "workers"
	}
	c.jobs[j.ID] = &j
	c.emit("Job", "JobRegistered", j.ID, map[string]any{"Job": c.details(&j)})
	c.scheduleJob(&j)
}

// Stop stops a job and its workers, as `nomad job stop` does.
func (c *Cluster) Stop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.jobs[id]
	if old == nil {
		return
	}
	j := *old
	j.Stop = true
	c.revise(&j)
	c.emit("Job", "JobDeregistered", id, map[string]any{"Job": c.details(&j)})
	c.scheduleJob(&j)
	c.unblock()
}

// revise makes j the next version of its job, with the tag of the previous version.
// The caller holds c.mu.
func (c *Cluster) revise(j *Job) {
	if tag := c.tags[j.ID][j.version]; tag != "" {
		c.tags[j.ID][j.version+1] = tag
	}
	j.version++
	j.change = c.bump("jobs", "policies")
	j.index, j.submitted = j.change, time.Now().UnixNano()
	c.jobs[j.ID] = j
}

// Purge removes a job and stops its workers.
func (c *Cluster) Purge(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[id]
	if j == nil {
		return
	}
	delete(c.jobs, id)
	delete(c.tags, id)
	delete(c.queued, id)
	delete(c.counts, id)
	c.bump("jobs", "policies")
	c.emit("Job", "JobDeregistered", id, map[string]any{"Job": c.details(j)})
	// In a real Nomad, events did not show what becomes of a purged job's
	// allocations.
	c.mute = true
	for _, a := range c.workers(id) {
		c.stop(a)
	}
	c.mute = false
	for _, a := range c.byJob[id] {
		if !a.live() {
			delete(c.allocs, a.ID) // without an event
			delete(c.byJob[id], a.ID)
		}
	}
	c.bump("allocs")
	c.unblock()
}

// Complete lets one worker of a job end successfully. It returns false if the job
// has no worker that should run.
func (c *Cluster) Complete(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.workers(id) {
		if a.Desired == api.AllocDesiredStatusRun {
			c.end(a, api.AllocClientStatusComplete, api.AllocDesiredStatusRun)
			return true
		}
	}
	return false
}

// Fail lets all workers of a job fail for good, as Nomad does once a job has used up its
// restarts and reschedules.
func (c *Cluster) Fail(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.workers(id) {
		c.end(a, api.AllocClientStatusFailed, api.AllocDesiredStatusRun)
	}
	c.summarize(id)
}

// Workers returns the allocation IDs of a job's live workers.
func (c *Cluster) Workers(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, a := range c.workers(id) {
		out = append(out, a.ID)
	}
	return out
}

// Scale sets a count as `nomad job scale` does.
func (c *Cluster) Scale(id string, count int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.scale(id, &api.ScalingRequest{Count: new(int64(count))})
	return err
}

// GroupCounts returns the count and the number of live workers of each group of a job.
func (c *Cluster) GroupCounts(id string) (counts, live map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts, live = map[string]int{}, map[string]int{}
	if j := c.jobs[id]; j != nil {
		for _, g := range j.groups() {
			counts[g.Name], live[g.Name] = g.Count, 0
		}
	}
	for _, a := range c.workers(id) {
		live[a.Group]++
	}
	return counts, live
}

// Counts returns the count of the first group, and the number of live workers, of every job.
func (c *Cluster) Counts() (counts, live map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts, live = map[string]int{}, map[string]int{}
	for id, j := range c.jobs {
		counts[id] = j.Count
	}
	for _, a := range c.allocs {
		if a.live() {
			live[a.Job]++
		}
	}
	return counts, live
}

// Calls returns the number of requests and of accepted scales so far.
func (c *Cluster) Calls() (calls, scales int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls, c.writes
}

// summarize records that a job's summary has changed; lists of jobs contain it.
func (c *Cluster) summarize(id string) { c.counts[id] = c.bump("jobs") }

func (c *Cluster) put(a *Alloc) {
	c.allocs[a.ID] = a
	c.counts[a.Job] = c.index
	c.tables["jobs"].index, c.tables["jobs"].items = c.index, nil
	if c.byJob[a.Job] == nil {
		c.byJob[a.Job] = map[string]*Alloc{}
	}
	c.byJob[a.Job][a.ID] = a
}

// workers returns a job's live workers by index. The caller holds c.mu.
func (c *Cluster) workers(id string) []*Alloc {
	var out []*Alloc
	for _, a := range c.byJob[id] {
		if a.live() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *Alloc) int { return a.N - b.N })
	return out
}
