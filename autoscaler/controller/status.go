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
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// describe makes the status that is published. The caller holds a.mu.
func (a *Controller) describe(v *cluster.View, wants []planner.Want, plan planner.Plan, lead bool, now time.Time) *api.Status {
	s := &api.Status{Time: now, Agent: a.cfg.Name, Leading: lead, Ready: true, Paused: a.control.All, Jobs: []api.JobStatus{}, Pools: []api.PoolStatus{}}
	waits := make(map[planner.JobKey]planner.Wait, len(plan.Waits))
	for _, w := range plan.Waits {
		waits[w.Job] = w
	}
	pools := map[string]*api.PoolStatus{}
	for _, name := range poolNames(v) {
		p := a.policies[name]
		pools[name] = &api.PoolStatus{Name: name, Reserved: v.Others[name], Policy: p.spec, Problem: p.problem, Queues: queues(a.cfg.Pool(name))}
	}
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.State == planner.Ready {
			for _, b := range n.Bins {
				pools[n.Pool].Capacity += max(0, b.Slots)
			}
		}
	}
	for i := range v.Jobs {
		j, f, r := &v.Jobs[i], &v.Facts[i], a.ledger.Jobs[v.Jobs[i].Key]
		js := describeJob(j, f, r, wants[i], waits[j.Key], now)
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
	for _, x := range v.Aside {
		out := api.IneligibleJob{Namespace: x.Key.Namespace, ID: x.Key.ID, Count: x.Count, Off: x.Off}
		for _, p := range x.Problems {
			out.Problems = append(out.Problems, p.String())
		}
		s.Ineligible = append(s.Ineligible, out)
	}
	return s
}

// queues are the rules of a pool as they are shown.
func queues(pool config.Pool) []api.QueueStatus {
	var out []api.QueueStatus
	for _, q := range pool.Rules() {
		out = append(out, api.QueueStatus{Name: q.Name, Namespaces: q.Namespaces, MaxPriority: q.MaxPriority, MaxWeight: q.MaxWeight})
	}
	return out
}

func describeJob(j *planner.Job, f *cluster.Facts, r *Record, w planner.Want, wait planner.Wait, now time.Time) api.JobStatus {
	curve := policy.NewCurve(r.points()...)
	js := api.JobStatus{
		Namespace: j.Key.Namespace, ID: j.Key.ID, Pool: j.Pool, Queue: f.Spec.Queue,
		Count: j.Count(), Running: f.Running, Want: w.Count, Min: j.Min, Max: j.Max, Reason: w.Reason,
		HoldReason: wait.Why, HoldUntil: wait.Until, Seen: r.FirstSeen, Started: r.FirstStart, Completed: r.Completed,
		Attained: r.Attained, Resizes: r.Resizes, Step: r.Done, Loss: r.loss, Size: r.size, Gaps: gaps(r.Gaps), LostSteps: r.Lost, WriteError: r.trouble,
		StepTimes: curve.Points(), Notes: f.Notes,
		Asks: api.Asks{
			Kind: f.Spec.Kind, Preferred: f.Spec.Preferred, Sizes: j.Sizes, Slots: f.Slots, Weight: f.Spec.Weight, Priority: f.Spec.Priority,
			Suspendable: j.Suspendable, Deadline: r.deadline(f.Spec),
		},
	}
	js.Total = f.Spec.TotalWork
	if js.Total == 0 {
		js.Total = r.Total
	}
	switch {
	case r.Frozen:
		js.State, js.HoldReason = api.StateComplete, ""
	case j.Frozen != "":
		js.State, js.HoldReason = api.StateHeld, j.Frozen
	case j.Left != "":
		js.State, js.HoldReason = api.StateHeld, j.Left
	case f.Running > 0 || j.Count() > 0:
		js.State = api.StateRunning
	case j.Started:
		js.State = api.StateSuspended
	default:
		js.State = api.StateWaiting
	}
	if js.State == api.StateRunning && js.Total > r.Done && curve.Measured() && f.Running > 0 {
		if left := (js.Total - r.Done) * curve.Time(f.Running); within(left, 0, mostSeconds) {
			js.ETA = now.Add(time.Duration(left * float64(time.Second))).Round(time.Second)
		}
	}
	return js
}

func gaps(of []Gap) []api.Gap {
	var out []api.Gap
	for _, g := range of {
		out = append(out, api.Gap(g))
	}
	return out
}
