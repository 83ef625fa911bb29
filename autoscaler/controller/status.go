// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// describe makes the status that is published. The caller holds c.mu.
func (c *Controller) describe(v *cluster.View, wants []planner.Want, plan planner.Plan, lead bool, now time.Time) *api.Status {
	s := &api.Status{Time: now, Autoscaler: c.cfg.Name, Leading: lead, Ready: true, Paused: c.overrides.All, Jobs: []api.JobStatus{}, Pools: []api.PoolStatus{}}
	waits := byJob(plan.Waits)
	pools := c.describePools(v)
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		js := describeJob(j, f, c.job(j.Key), wants[i], waits[j.Key], now)
		js.Spread = c.describeSpread(v, j, f)
		p := pools[j.Pool]
		p.Used += j.Alive() * f.Slots
		if js.State == api.StateWaiting || js.State == api.StateSuspended {
			p.Waiting++
		}
		s.Jobs = append(s.Jobs, js)
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		s.Pools = append(s.Pools, *pools[name])
	}
	for _, x := range v.Ineligible {
		out := api.IneligibleJob{JobKey: x.Key, Count: x.Count, Off: x.Off}
		for _, p := range x.Problems {
			out.Problems = append(out.Problems, p.String())
		}
		s.Ineligible = append(s.Ineligible, out)
	}
	return s
}

func byJob(waits []planner.Wait) map[planner.JobKey]planner.Wait {
	out := make(map[planner.JobKey]planner.Wait, len(waits))
	for _, w := range waits {
		out[w.Job] = w
	}
	return out
}

// describePools are the pools without their jobs, by name.
func (c *Controller) describePools(v *cluster.View) map[string]*api.PoolStatus {
	pools := map[string]*api.PoolStatus{}
	for _, name := range poolNames(v) {
		p := c.policies[name]
		pools[name] = &api.PoolStatus{Name: name, Reserved: v.Reserved[name], Policy: p.line, Problem: p.problem, Queues: queues(c.cfg.Pool(name))}
	}
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.State == planner.Ready {
			for _, b := range n.Bins {
				pools[n.Pool].Capacity += max(0, b.Slots)
			}
		}
	}
	return pools
}

// queues are the rules of a pool as they are shown.
func queues(pool config.Pool) []api.QueueStatus {
	var out []api.QueueStatus
	for _, q := range pool.Rules() {
		out = append(out, api.QueueStatus(q))
	}
	return out
}

// lost returns how many steps resizes made the job repeat, nil where that is not known of
// all.
func (j *job) lost() *float64 {
	if j.Uncounted {
		return nil
	}
	lost := j.Lost
	return &lost
}

func describeJob(j *planner.Job, f *cluster.Facts, h *job, w planner.Want, wait planner.Wait, now time.Time) api.JobStatus {
	curve := speedup.NewCurve(h.Points()...)
	js := api.JobStatus{
		JobKey: j.Key, Pool: j.Pool, Queue: f.Spec.Queue, Tenant: f.Tenant,
		Count: j.Count(), Running: f.Running, Want: w.Count, Min: j.Min, Max: j.Max, Reason: w.Reason,
		HoldReason: wait.Why, HoldUntil: wait.Until, Seen: h.FirstSeen, Started: h.FirstStart, Completed: h.Completed,
		Attained: h.Attained, Resizes: h.Resizes, Step: h.Done, Total: h.total(f), Loss: h.Loss, Size: h.Size, Gaps: h.Gaps, LostSteps: h.lost(),
		StepTimes: curve.Points(), Notes: f.Notes, WriteError: h.writeError,
		Requests: api.Requests{
			Kind: f.Spec.Kind, Preferred: f.Spec.Preferred, Sizes: j.Sizes, Slots: f.Slots, Weight: f.Spec.Weight, Priority: f.Spec.Priority,
			Preemptible: j.Preemptible, Deadline: h.deadline(f),
		},
	}
	switch {
	case h.Frozen:
		js.State, js.HoldReason = api.StateComplete, ""
	case j.Frozen != "":
		js.State, js.HoldReason = api.StateHeld, j.Frozen
	case j.HoldReason != "":
		js.State, js.HoldReason = api.StateHeld, j.HoldReason
	case f.Running > 0 || j.Count() > 0:
		js.State = api.StateRunning
	case j.Started:
		js.State = api.StateSuspended
	default:
		js.State = api.StateWaiting
	}
	js.Progress = progress(&js)
	if left, ok := h.left(f, curve); ok && js.State == api.StateRunning && left <= maxETA {
		js.ETA = now.Add(time.Duration(left * float64(time.Second))).Round(time.Second)
	}
	return js
}

// progress is the part of a job's work that is done. The last report of a training
// that completes precedes its last step, and may be all there ever was.
func progress(js *api.JobStatus) float64 {
	switch {
	case js.State == api.StateComplete:
		return 1
	case js.Total > 0:
		return min(1, js.Step/js.Total)
	}
	return 0
}

// maxETA is the longest time to completion, in seconds, that is shown: 30 years.
const maxETA = 1e9
