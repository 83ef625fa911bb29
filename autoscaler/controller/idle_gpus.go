// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// A job whose training does not answer is idle if all GPUs of all its allocations had a
// utilization of 0 % at each reading for the idle_after of its pool. 1 % is use: the
// counter covers less than a second, and is 0 for a process that only holds memory. The
// time starts again if a reading is missing, and with a new allocation, so a job is never
// idle because its use is unknown.

const (
	// gpusEvery and gpusAtMost bound the time between two readings of a GPU. Between these
	// bounds, it is idle_after divided by gpuReadings, so that occasional use is seen.
	gpusEvery   = 10 * time.Second
	gpusAtMost  = time.Minute
	gpuReadings = 30

	gpuNodesAtOnce = 16
	gpuNodesAtMost = 1024 // that are read in one interval; the others follow in the next one

	// staleReading is the age from which a reading does not count. A client repeats its
	// last reading if its device plugin measures nothing new.
	staleReading = 5 * time.Minute
)

// unusedGPUs is the time for which a job's GPUs were unused at each reading.
type unusedGPUs struct {
	since, heard time.Time
	newest       uint64 // CreateIndex of the newest allocation
}

func (u unusedGPUs) length() time.Duration { return max(0, u.heard.Sub(u.since)) }

// heldGPU is a GPU that an allocation holds.
type heldGPU struct{ alloc, gpu string }

// unusedGPU is the time for which a GPU was unused at each reading.
type unusedGPU struct {
	since, heard time.Time
	at           time.Time // of the last reading, by the clock of its node
}

// gpuWatch holds what one term of leadership has read of GPUs.
type gpuWatch struct {
	unused  map[heldGPU]unusedGPU
	last    string // the node that was asked last
	failing bool   // the last reading of some node failed
}

// watchGPUs reads the utilization of GPUs of jobs whose training does not answer, during
// one term of leadership. Rounds find the result in the jobs.
func (c *Controller) watchGPUs(ctx context.Context) {
	defer c.noteGPUs(&gpuWatch{}, nil)
	w := &gpuWatch{}
	for {
		pause(ctx, c.gpuInterval())
		if ctx.Err() != nil {
			return
		}
		var jobs map[identity.JobKey]cluster.JobGPUs
		if judged := c.judgedByGPUs(); len(judged) > 0 {
			jobs = c.watcher.GPUsOf(judged)
		}
		read := c.readGPUs(ctx, w, w.choose(jobs))
		if ctx.Err() != nil {
			return
		}
		w.note(jobs, read, time.Now())
		c.noteGPUs(w, jobs)
	}
}

// gpuInterval returns the time until GPUs are read again.
func (c *Controller) gpuInterval() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	every := gpusAtMost
	for _, p := range c.cfg.Pools {
		if p.IdleAfter > 0 {
			every = min(every, p.IdleAfter/gpuReadings)
		}
	}
	return max(every, c.gpusEvery)
}

// judgedByGPUs returns the jobs that are judged by their GPUs.
func (c *Controller) judgedByGPUs() map[identity.JobKey]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[identity.JobKey]bool{}
	if c.view == nil {
		return out
	}
	for i := range c.view.Jobs {
		j := &c.view.Jobs[i]
		known := c.job(j.Key)
		if known != nil && known.Quiet == nil && !known.answered && j.Alive() > 0 && c.cfg.Pool(j.Pool).IdleAfter > 0 {
			out[j.Key] = true
		}
	}
	return out
}

// choose returns the nodes to ask now: those that hold GPUs of the jobs or, if there are
// too many, the ones after the node that was asked last.
func (w *gpuWatch) choose(jobs map[identity.JobKey]cluster.JobGPUs) []string {
	all := map[string]bool{}
	for _, j := range jobs {
		for _, g := range j.GPUs {
			all[g.Node] = true
		}
	}
	nodes := slices.Sorted(maps.Keys(all))
	if len(nodes) <= gpuNodesAtMost {
		return nodes
	}
	first, found := slices.BinarySearch(nodes, w.last)
	if found {
		first++
	}
	nodes = append(nodes[first:len(nodes):len(nodes)], nodes[:first]...)[:gpuNodesAtMost]
	w.last = nodes[gpuNodesAtMost-1]
	return nodes
}

// readGPUs returns the readings of GPUs by node and device ID. A node that failed to answer
// has none.
func (c *Controller) readGPUs(ctx context.Context, w *gpuWatch, nodes []string) map[string]map[string]cluster.Utilization {
	ctx, cancel := context.WithTimeout(ctx, gpusAtMost)
	defer cancel()
	var mu sync.Mutex
	var failure error
	failed, out := 0, map[string]map[string]cluster.Utilization{}
	var g errgroup.Group
	g.SetLimit(gpuNodesAtOnce)
	for _, node := range nodes {
		g.Go(func() error {
			got, err := c.client.Utilization(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			out[node] = got
			if err != nil {
				failure = err
				failed++
			}
			return nil
		})
	}
	_ = g.Wait() // one node does not fail the others
	switch {
	case failed > 0 && !w.failing && ctx.Err() == nil:
		c.log.Warn("reading the utilization of GPUs failed; their jobs do not count as idle", "nodes", failed, "class", cluster.Classify(failure), "error", failure)
	case failed == 0 && w.failing && len(nodes) > 0:
		c.log.Info("the utilization of GPUs can be read again")
	}
	w.failing = failed > 0 || w.failing && len(nodes) == 0
	return out
}

// note records the readings of the GPUs of jobs, and forgets all other GPUs.
func (w *gpuWatch) note(jobs map[identity.JobKey]cluster.JobGPUs, read map[string]map[string]cluster.Utilization, now time.Time) {
	before := w.unused
	w.unused = map[heldGPU]unusedGPU{}
	for _, j := range jobs {
		for _, g := range j.GPUs {
			key := heldGPU{g.Alloc, g.ID}
			was, known := before[key]
			if readings, asked := read[g.Node]; asked {
				r, ok := readings[g.ID]
				was, known = was.then(known, r, ok, now)
			}
			if known {
				w.unused[key] = was
			}
		}
	}
}

// then returns the time for which a GPU was unused after one more reading, and whether it
// was unused at all. known and read state whether there was such a time before, and whether
// the utilization could be read.
func (u unusedGPU) then(known bool, r cluster.Utilization, read bool, now time.Time) (unusedGPU, bool) {
	switch {
	case !read || r.Percent > 0:
		return unusedGPU{}, false
	case !known:
		return unusedGPU{since: now, heard: now, at: r.At}, true
	case r.At.Equal(u.at):
		return u, now.Sub(u.heard) <= staleReading
	}
	return unusedGPU{since: u.since, heard: now, at: r.At}, true
}

// of returns for how long all GPUs of a job were unused.
func (w *gpuWatch) of(job cluster.JobGPUs) unusedGPUs {
	all := unusedGPUs{newest: job.Newest}
	for i, g := range job.GPUs {
		u, ok := w.unused[heldGPU{g.Alloc, g.ID}]
		if !ok {
			return unusedGPUs{}
		}
		if i == 0 || u.heard.Before(all.heard) {
			all.heard = u.heard
		}
		if u.since.After(all.since) {
			all.since = u.since
		}
	}
	return all
}

// noteGPUs records for how long the GPUs of jobs were unused. Jobs that are missing have
// no such time.
func (c *Controller) noteGPUs(w *gpuWatch, jobs map[identity.JobKey]cluster.JobGPUs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, j := range c.jobs {
		j.gpus = w.of(jobs[key])
	}
}
