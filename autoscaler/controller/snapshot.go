// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// movable reports whether a policy may decide about the job now. Any other job counts as
// foreign workload.
func movable(j *planner.Job, now time.Time) bool { return report.Movable(j, now) }

// undecided returns the wanted count of a job about which no policy decides: its present
// count.
func undecided(j *planner.Job) planner.Want {
	w := planner.Want{Count: j.Settled()}
	if j.NeverFits != "" {
		w.Wait, w.Reason = waiting.NeverFits, string(waiting.NeverFits)+": "+j.NeverFits
	}
	return w
}

// snapshot returns a pool as its policy sees it, and the index in v of each of its jobs. It
// does not set Changed. The caller holds c.mu.
func (c *Controller) snapshot(v *cluster.View, name string, now time.Time) (*policy.Snapshot, []int) {
	s := &policy.Snapshot{
		Now: seconds(now), Seed: 1, ResizeCost: c.cfg.Planner.ResizeCost.Seconds(), State: c.history.States[name],
		Past: c.history.Queues[name].Past(),
	}
	bins := addNodes(s, v, name)
	reserved := v.Reserved[name]
	var index []int
	costs := map[string][]float64{} // by namespace
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		if j.Pool != name {
			continue
		}
		may := movable(j, now)
		kept := addWorkers(s, v, bins, j, may)
		if !may {
			if n := held(v, bins, i); n > 0 {
				s.Fixed = append(s.Fixed, policy.Fixed{Queue: f.Queue, Namespace: j.Key.Namespace, Slots: n})
			}
			// Keep slots for its workers that have no place yet.
			if j.Frozen == "" && !j.Stopped {
				reserved += max(0, j.AskedSlots()-j.LiveSlots())
			}
			continue
		}
		if kept > 0 {
			s.Fixed = append(s.Fixed, policy.Fixed{Queue: f.Queue, Namespace: j.Key.Namespace, Slots: kept})
		}
		h := c.job(j.Key)
		costs[j.Key.Namespace] = append(costs[j.Key.Namespace], h.Costs...)
		index = append(index, i)
		p := policyJob(j, f, h, c.history.Curve(h.Job, kindKey(j.Key, f)))
		p.Alike = c.history.Alike(groupOf(j, f))
		p.Adapts = c.history.Adapts(h.Job, kindKey(j.Key, f), f.Queue)
		s.Jobs = append(s.Jobs, p)
	}
	s.Fixed = append(s.Fixed, rigidSlots(v, name)...)
	take(s, reserved)
	s.ResizeCost = resizeCost(costs, s.ResizeCost)
	return s, index
}

// addNodes adds the bins of a pool's nodes, all of them free. It returns the
// index of each in s.Nodes.
func addNodes(s *policy.Snapshot, v *cluster.View, pool string) map[placement.Place]int {
	bins := map[placement.Place]int{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Pool != pool || n.State == planner.Draining {
			continue
		}
		for b, bin := range n.Bins {
			slots := max(0, bin.Slots)
			if n.State == planner.Ineligible {
				slots = 0 // addWorkers adds the slots that jobs hold there
			}
			bins[placement.Place{Node: i, Bin: b}] = len(s.Nodes)
			s.Nodes = append(s.Nodes, policy.Node{ID: fmt.Sprintf("%s/%d", n.ID, b), Type: bin.Type, GPUs: slots, Free: slots})
		}
	}
	return bins
}

// addWorkers subtracts the slots of a job's workers from the free ones and, if the policy
// may not decide about the job, from all. Slots of spares are free if the autoscaler may give
// them back. A job with a worker on an unhealthy node keeps its spares, because a change of the
// count could end that worker. addWorkers returns the slots of spares that only their job keeps.
func addWorkers(s *policy.Snapshot, v *cluster.View, bins map[placement.Place]int, j *planner.Job, movable bool) (kept int) {
	for _, g := range j.Groups {
		workers := g.Live
		if !movable || j.UnhealthyReason != "" {
			workers = slices.Concat(workers, g.Spares) // else they give way to any worker
		}
		for i, w := range workers {
			movable, spare := movable && i < len(g.Live), i >= len(g.Live)
			at, ok := bins[w.Place]
			if !ok {
				continue
			}
			n := &s.Nodes[at]
			switch closed := v.Nodes[w.Node].State == planner.Ineligible; {
			case closed && movable:
				n.GPUs += g.Need.Slots
			case closed:
			case movable:
				n.Free = max(0, n.Free-g.Need.Slots)
			default:
				n.GPUs = max(0, n.GPUs-g.Need.Slots)
				n.Free = max(0, n.Free-g.Need.Slots)
				if spare {
					kept += g.Need.Slots
				}
			}
		}
	}
	return kept
}

// held returns the number of a job's slots that its policy does not see, because it may
// not decide about the job.
func held(v *cluster.View, bins map[placement.Place]int, job int) int {
	j, n := &v.Jobs[job], 0
	for _, g := range j.Groups {
		for _, w := range slices.Concat(g.Live, g.Spares) {
			if _, ok := bins[w.Place]; ok && v.Nodes[w.Node].State != planner.Ineligible {
				n += g.Need.Slots
			}
		}
	}
	if j.Frozen == "" && !j.Stopped {
		n += max(0, j.AskedSlots()-j.LiveSlots())
	}
	return n
}

// take removes slots from the pool, free ones first.
func take(s *policy.Snapshot, n int) {
	for i := range s.Nodes {
		k := min(n, s.Nodes[i].Free)
		s.Nodes[i].Free -= k
		s.Nodes[i].GPUs -= k
		n -= k
	}
	for i := range s.Nodes {
		k := min(n, s.Nodes[i].GPUs)
		s.Nodes[i].GPUs -= k
		n -= k
	}
}

// policyJob returns a job as policies see it. The workers of one unit of a gang start and
// stop together, so policies see the unit as one worker that holds all their slots.
func policyJob(j *planner.Job, f *cluster.Facts, h *job, curve speedup.Curve) policy.Job {
	unit := max(1, f.Unit)
	if unit > 1 {
		curve = speedup.NewCurve() // trainings report by workers
	}
	most, preferred := j.Max, f.Spec.Preferred
	if h.idleAction != "" {
		most = smallest(j) // the policy gives the rest to others
		preferred = min(preferred, most)
	}
	permanent := slices.ContainsFunc(j.Groups, func(g planner.Group) bool { return g.Min > 0 })
	return policy.Job{
		ID: j.Key.Namespace + "/" + j.Key.ID, Namespace: j.Key.Namespace, Queue: f.Queue, Tenant: f.Tenant, Type: f.Type, Weight: f.Spec.Weight, Priority: f.Spec.Priority,
		Submit: seconds(h.FirstSeen), FirstStart: seconds(h.FirstStart), LastChange: seconds(h.LastChange), Deadline: seconds(f.Spec.DeadlineOf(h.Submitted)),
		Min: j.Min / unit, Max: most / unit, Preferred: preferred / unit, Sizes: j.Sizes.Over(unit), PerWorker: f.Slots,
		Count: j.Settled() / unit, Preemptible: j.Preemptible, Resizes: h.Resizes, Attained: h.Attained, RunTime: h.RunTime, Pardoned: h.Pardoned, Permanent: permanent,
		Curve: curve, Done: h.Done, Remaining: max(0, h.Work(f.Spec.TotalWork)-h.Done),
	}
}

// maxResizeCost is the longest gap, in seconds, that counts as the cost of a resize. The
// configured resize_cost has the same bound.
const maxResizeCost = 3600

// resizeCost returns the cost of a resize in a pool. It takes the median cost of each
// namespace, and of these the lower median. Trainings measure their own costs, and
// reports of one tenant must not keep the jobs of all others at their sizes. The
// configured cost counts as one more namespace, unless the only namespace has measured
// costs.
func resizeCost(costs map[string][]float64, configured float64) float64 {
	var medians []float64
	for _, of := range costs {
		of = slices.DeleteFunc(of, func(g float64) bool { return g > maxResizeCost })
		if len(of) > 0 {
			slices.Sort(of)
			medians = append(medians, of[len(of)/2])
		}
	}
	if len(medians) == 0 || len(costs) > 1 {
		medians = append(medians, configured)
	}
	slices.Sort(medians)
	return medians[(len(medians)-1)/2]
}

// seconds returns Unix time, or 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
