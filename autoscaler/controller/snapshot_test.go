// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// If a policy may not decide about a job, the job keeps the slots of its workers, and the
// slots for its workers that are not placed yet. Nomad places none for a stopped or
// completed job.
func TestSnapshot_WhatJobsThatMustNotChangeHold(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		edit func(*planner.Job)
		free int // of 16
	}{
		"paused, with 3 workers that wait": {func(j *planner.Job) { j.HoldReason = "paused by a user" }, 12},
		"stopped":                          {func(j *planner.Job) { j.HoldReason, j.Stopped = "the job is stopped", true }, 15},
		"completed":                        {func(j *planner.Job) { j.Frozen = "a worker completed" }, 15},
	} {
		t.Run(name, func(t *testing.T) {
			v := twoRacks(t, 4)
			j := &v.Jobs[0]
			j.Groups[0].Live = j.Groups[0].Live[:1]
			tc.edit(j)
			v.Facts = []cluster.Facts{{Spec: &jobspec.Spec{}, Observation: history.Observation{Slots: 1}}}
			c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
			s, index := c.snapshot(v, "gpu", now)
			must.SliceEmpty(t, index)
			free := 0
			for _, n := range s.Nodes {
				free += n.Free
			}
			must.Eq(t, tc.free, free)
		})
	}
}

// A policy sees a gang in units, and its decision is converted back to workers.
func TestSnapshot_Gang(t *testing.T) {
	v := twoRacks(t, 4)
	j := &v.Jobs[0]
	j.Groups = []planner.Group{{Name: "ps"}, {Name: "workers"}}
	j.Ratio, j.Min, j.Max, j.Sizes = []int{1, 4}, 5, 20, sizes.Every(5, 5)
	j.Groups[0].Count, j.Groups[1].Count = 2, 8
	v.Facts = []cluster.Facts{{Spec: &jobspec.Spec{Preferred: 10}, Observation: history.Observation{Slots: 9, Unit: 5, Created: 1}}}
	c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
	c.history.Job(j.Key, &v.Facts[0].Observation, time.Unix(1_800_000_000, 0))
	q := c.request(v, "gpu", &poolPolicy{}, time.Unix(1_800_000_000, 0))
	must.Len(t, 1, q.snap.Jobs)
	got := &q.snap.Jobs[0]
	must.Eq(t, []int{1, 4, 2, 2, 9}, []int{got.Min, got.Max, got.Preferred, got.Count, got.PerWorker})
	must.True(t, got.Sizes.All())
	q.decision = policy.Decision{Allocations: []policy.Allocation{{Count: 3, Reason: "grows"}}}
	must.Eq(t, planner.Want{Count: 15, Reason: "grows (in units of 5 workers)"}, q.wants()[j.Key])
}

// A gang that is paused and was scaled by hand counts for all slots that it holds and waits
// for, however few slots an average worker of a unit has.
func TestSnapshot_RaggedGang(t *testing.T) {
	v := twoRacks(t, 4)
	j, now := &v.Jobs[0], time.Unix(1_800_000_000, 0)
	live := j.Groups[0].Live
	must.SliceNotEmpty(t, live)
	j.Groups = []planner.Group{{Name: "ps", Need: placement.Need{CPU: 1}}, {Name: "workers", Count: len(live) + 2, Live: live, Need: placement.Need{Slots: 1}}}
	j.Ratio, j.HoldReason = []int{100, 1}, "paused by a user"
	v.Facts = []cluster.Facts{{Spec: &jobspec.Spec{}, Observation: history.Observation{Slots: 1, Unit: 101}}}
	c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
	s, _ := c.snapshot(v, "gpu", now)
	must.Len(t, 1, s.Fixed)
	must.Eq(t, len(live)+2, s.Fixed[0].Slots)
}

// One namespace has seven jobs, each in a queue of its own. Another namespace has a single
// job.
func TestSnapshot_QueueNamesGainNothing(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	v := twoRacks(t)
	one := v.Jobs[0]
	v.Jobs = nil
	add := func(id, queue, tenant string) {
		j := one
		j.Key = identity.JobKey{Namespace: tenant, ID: id}
		j.Min, j.Max = 1, 16
		v.Jobs = append(v.Jobs, j)
		v.Facts = append(v.Facts, cluster.Facts{Spec: &jobspec.Spec{Queue: queue, Weight: 1, Preferred: 1}, Tenant: tenant, Observation: history.Observation{Slots: 1}})
	}
	for i := range 7 {
		add(fmt.Sprint("a", i), fmt.Sprint("made-up-", i), "team-a")
	}
	add("b", "team-b", "team-b")
	c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
	for i := range v.Jobs {
		c.history.Job(v.Jobs[i].Key, &v.Facts[i].Observation, now)
	}
	s, _ := c.snapshot(v, "gpu", now)
	p, err := builtin.Policies.Parse("weighted-fair")
	must.NoError(t, err)
	d := p.Allocate(s)
	must.Eq(t, 8, d.Allocations[7].Count, must.Sprint(d.Allocations))
}

// The slots of spares are free for the policy, unless their job keeps them.
func TestSnapshot_Spares(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*planner.Job)
		fixed int
	}{
		"given back":           {func(*planner.Job) {}, 0},
		"of a paused job":      {func(j *planner.Job) { j.HoldReason = "paused by a user" }, 4},
		"of an unhealthy node": {func(j *planner.Job) { j.UnhealthyReason = "a worker is on node a, which is down" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := twoRacks(t, 4)
			j := &v.Jobs[0]
			tc.edit(j)
			v.SeparateSpares(0, map[string]int{j.Groups[0].Name: 1})
			v.Facts = []cluster.Facts{{Spec: &jobspec.Spec{}, Observation: history.Observation{Slots: 1}}}
			c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
			c.history.Jobs[j.Key] = &history.Job{}
			s, _ := c.snapshot(v, "gpu", time.Unix(1_800_000_000, 0))
			slots, fixed := 0, 0
			for _, n := range s.Nodes {
				slots += n.GPUs
			}
			for _, f := range s.Fixed {
				fixed += f.Slots
			}
			must.Eq(t, [2]int{16 - tc.fixed, tc.fixed}, [2]int{slots, fixed})
		})
	}
}

// A job adapts its batch if its training says so. As long as it has not, the last job of its
// kind decides, in the same queue only.
func TestSnapshot_Adapts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	v := twoRacks(t)
	one := v.Jobs[0]
	v.Jobs = nil
	for _, queue := range []string{"a", "a", "b"} {
		j := one
		j.Key = identity.JobKey{Namespace: "default", ID: strconv.Itoa(len(v.Jobs))}
		j.Min, j.Max = 1, 8
		v.Jobs = append(v.Jobs, j)
		v.Facts = append(v.Facts, cluster.Facts{Spec: &jobspec.Spec{Kind: "k", Weight: 1, Preferred: 4}, Queue: queue, Observation: history.Observation{Slots: 1}})
	}
	c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
	for i := range v.Jobs {
		c.history.Job(v.Jobs[i].Key, &v.Facts[i].Observation, now)
	}
	adapt := func() (out []bool) {
		s, _ := c.snapshot(v, "gpu", now)
		for i := range s.Jobs {
			out = append(out, s.Jobs[i].Adapts)
		}
		return out
	}
	must.Eq(t, []bool{false, false, false}, adapt())

	first, kind := c.history.Jobs[v.Jobs[0].Key], kindKey(v.Jobs[0].Key, &v.Facts[0])
	c.history.Learn(first, kind, &history.Progress{
		Size: 1, Step: 9, Samples: 576, Adaptive: &history.Adaptive{Initial: 32, Batch: 64, Accumulation: 1, Efficiency: 1, LRFactor: 2},
	}, 1, now)
	c.history.LearnAdapts(kind, "a", first, now)
	must.Eq(t, []bool{true, true, false}, adapt())

	s, _ := c.snapshot(v, "gpu", now)
	s.ResizeCost = 1
	for i := range s.Jobs {
		s.Jobs[i].Count = 0
	}
	p, err := builtin.Policies.Parse("kolo")
	must.NoError(t, err)
	d := p.Allocate(s)
	must.Eq(t, []int{1, 1, 4}, []int{d.Allocations[0].Count, d.Allocations[1].Count, d.Allocations[2].Count}, must.Sprint("start_small applies to those that adapt"))
}
