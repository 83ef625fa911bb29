// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/timeline"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// Bounds of the recent past, in total about 10 MB.
const (
	keepSlots   = 6 * time.Hour
	mostChanges = 50_000
	mostEvents  = 500
)

// recordSlots records the slots that each job holds. The first record also restores the past
// from Nomad's allocations, so that it survives a change of leaders and a restart. The caller
// holds c.mu.
func (c *Controller) recordSlots(v *cluster.View, now time.Time) {
	slots := map[timeline.Key]int{}
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.State == planner.Ready {
			for _, b := range n.Bins {
				slots[timeline.Key{Pool: n.Pool}] += max(0, b.Slots)
			}
		}
	}
	pools := map[identity.JobKey]string{}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		pools[j.Key] = j.Pool
		if n := j.LiveSlots() + v.Facts[i].SlotsOf(v.Facts[i].SparesRunning); n > 0 {
			slots[timeline.Key{Pool: j.Pool, Job: j.Key}] = n
		}
	}
	if c.slots.Empty() {
		c.slots.Seed(c.pastSlots(pools), now)
	}
	c.slots.Record(now, slots)
}

// pastSlots returns the changes by which allocations of jobs took their slots and
// gave them back, with their times.
func (c *Controller) pastSlots(pools map[identity.JobKey]string) (deltas []timeline.Change) {
	c.watcher.Allocations(c.cfg.Pool, func(a *cluster.Allocation) {
		pool, known := pools[a.Job]
		if !known || a.Slots == 0 {
			return
		}
		key := timeline.Key{Pool: pool, Job: a.Job}
		deltas = append(deltas, timeline.Change{At: a.Created, Key: key, Slots: a.Slots})
		if !a.Ended.IsZero() {
			deltas = append(deltas, timeline.Change{At: a.Ended, Key: key, Slots: -a.Slots})
		}
	})
	return deltas
}

// Timeline returns the slots of each job since a time, and the last events.
func (c *Controller) Timeline(since time.Time) *api.Timeline {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines, from := c.slots.Since(since)
	out := &api.Timeline{From: from, To: time.Now(), Pools: []api.PoolLine{}, Jobs: []api.JobLine{}, Events: []api.Event{}}
	for _, l := range lines {
		var points []api.SlotsAt
		for _, p := range l.Points {
			points = append(points, api.SlotsAt{At: p.At, Slots: p.Slots})
		}
		if l.Key.Job == (identity.JobKey{}) {
			out.Pools = append(out.Pools, api.PoolLine{Pool: l.Key.Pool, Capacity: points})
		} else {
			out.Jobs = append(out.Jobs, api.JobLine{JobKey: l.Key.Job, Pool: l.Key.Pool, Slots: points})
		}
	}
	for i := range c.recent {
		if !c.recent[i].Time.Before(since) {
			out.Events = append(out.Events, c.recent[i])
		}
	}
	return out
}

// Nodes returns the nodes of the cluster, and the slots that jobs hold on them.
func (c *Controller) Nodes() ([]api.Node, error) {
	c.mu.Lock()
	v, pools := c.view, c.cfg.Pool
	c.mu.Unlock()
	if v == nil {
		return nil, cluster.ErrNotReady
	}
	return report.Nodes(v, c.watcher.Machines(pools)), nil
}

// Series returns the reports of a job's training, or nil if the job is unknown.
func (c *Controller) Series(key identity.JobKey) *api.Series {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.job(key)
	if j == nil {
		return nil
	}
	return report.Series(j.series)
}

// JobDetail returns what the status of a job does not contain: its training's last report, its
// scaling curve, and its allocations.
func (c *Controller) JobDetail(key identity.JobKey) *api.JobDetail {
	c.mu.Lock()
	out, pools := &api.JobDetail{}, c.cfg.Pool
	if v := c.view; v != nil {
		if i := slices.IndexFunc(v.Jobs, func(j planner.Job) bool { return j.Key == key }); i >= 0 {
			if j := c.job(key); j != nil {
				if j.training != nil {
					t := *j.training
					t.Heard, t.Stepped = j.series.Heard(), j.series.Stepped()
					out.Training = &t
				}
				out.Curve = report.Curve(j.Points(), c.history.Curve(j.Job, kindKey(key, &v.Facts[i])), &v.Jobs[i])
			}
		}
	}
	c.mu.Unlock()
	out.Allocations = report.Allocations(key, c.watcher.MachinesOf(key, pools), out.Training)
	return out
}
