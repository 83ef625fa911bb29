// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Round is the result of one round of the control loop.
type Round struct {
	Config *config.Config
	Now    time.Time
	View   *cluster.View
	// Wants holds the policies' decisions, and Jobs the state of the jobs, by index of
	// View.Jobs.
	Wants []planner.Want
	Jobs  []Job
	Plan  *planner.Plan
	// Ample holds the counts that the policies would want if there was room, by index of
	// View.Jobs; nil if this autoscaler does not lead.
	Ample    []int
	History  *history.History
	Ledger   *usage.Ledger                    // nil if this autoscaler does not account for usage
	Policies map[string]Policy                // by node pool
	Expected map[identity.JobKey]api.Expected // starts of waiting jobs, by the last forecast

	Leading, Paused bool
}

// Job is the autoscaler's state of a job.
type Job struct {
	*history.Job
	// WriteError is the error of the last write; empty if it succeeded.
	WriteError string
	Paused     bool          // by a command
	Idle       time.Duration // for how long the job has not used its slots, if it is idle; else 0
	IdleBy     string        // see api.JobStatus
	Straggler  *api.Straggler
	KeepsBatch bool          // it knows that it must not adapt its batch
	Hangs      time.Duration // for how long it has made no step, if it hangs; else 0
}

// Policy is a pool's policy.
type Policy struct {
	Line    string // as a user writes it
	Problem string // why it does not decide; empty if it does
}

// Status returns the status of the autoscaler after a round.
func Status(r *Round) *api.Status {
	v := r.View
	s := &api.Status{Time: r.Now, Autoscaler: r.Config.Name, Leading: r.Leading, Ready: true, Paused: r.Paused, Jobs: []api.JobStatus{}, Pools: []api.PoolStatus{}}
	waits := WaitsByJob(r.Plan.Waits)
	pools := poolStatuses(r)
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		js := jobStatus(j, f, r.Jobs[i], r.Wants[i], waits[j.Key], r.Now)
		js.Spread = spreadOf(r, i)
		js.Usage = usageOf(r, j.Key)
		js.Remaining = remainingOf(r, i)
		p := pools[j.Pool]
		p.Used += j.LiveSlots() + f.SlotsOf(f.SparesRunning)
		p.Spares += f.SlotsOf(f.SparesRunning)
		if js.State == api.StateWaiting || js.State == api.StateSuspended {
			p.Waiting++
		}
		s.Jobs = append(s.Jobs, js)
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		s.Pools = append(s.Pools, *pools[name])
	}
	for i := range v.Ineligible {
		s.Ineligible = append(s.Ineligible, ineligible(&v.Ineligible[i]))
	}
	for _, x := range v.Blocked {
		s.Blocked = append(s.Blocked, api.BlockedJob{JobKey: x.Key, Pool: x.Pool, Queue: x.Queue, Workers: x.Workers, Slots: x.Slots, Room: x.Room, Reason: x.Wait, Sentence: x.Sentence})
	}
	addWaits(s, r)
	addUse(s, r)
	addEntitled(s, r)
	if r.Ample != nil {
		addShortage(s, r)
	}
	return s
}

func ineligible(j *cluster.IneligibleJob) api.IneligibleJob {
	return api.IneligibleJob{JobKey: j.Key, Count: j.Count, Off: j.Off, Problems: j.Problems.Strings()}
}

// Ineligible returns the jobs of a pool that are not scaled because of errors.
func Ineligible(v *cluster.View, pool string) (out []api.IneligibleJob) {
	for i := range v.Ineligible {
		if j := &v.Ineligible[i]; j.Pool == pool && !j.Off {
			out = append(out, ineligible(j))
		}
	}
	return out
}

// usageOf returns what a job has used, nil if that is not known.
func usageOf(r *Round, key identity.JobKey) *api.Usage {
	if r.Ledger == nil || r.Ledger.Jobs[key] == nil {
		return nil
	}
	u := api.NewUsage(&r.Ledger.Jobs[key].Total)
	return &u
}

// WaitsByJob returns the waits of a plan by job.
func WaitsByJob(waits []planner.Wait) map[identity.JobKey]planner.Wait {
	out := make(map[identity.JobKey]planner.Wait, len(waits))
	for _, w := range waits {
		out[w.Job] = w
	}
	return out
}

// poolStatuses returns the status of each pool by name, without the sums over its jobs.
func poolStatuses(r *Round) map[string]*api.PoolStatus {
	pools := map[string]*api.PoolStatus{}
	for _, name := range r.View.Pools() {
		p := r.Policies[name]
		pools[name] = &api.PoolStatus{Name: name, Reserved: r.View.Reserved[name], Policy: p.Line, Problem: p.Problem, Queues: queues(r.Config.Pool(name)), Lends: r.Config.Pool(name).SpareSlots}
	}
	for i := range r.View.Nodes {
		if n := &r.View.Nodes[i]; n.State == planner.Ready {
			for _, b := range n.Bins {
				pools[n.Pool].Capacity += max(0, b.Slots)
			}
		}
	}
	return pools
}

// queues returns the queue rules of a pool as the status shows them.
func queues(pool config.Pool) []api.QueueStatus {
	var out []api.QueueStatus
	for _, q := range pool.Rules() {
		s := api.QueueStatus{
			Name: q.Name, Parent: q.Parent, Namespaces: q.Namespaces, MaxPriority: q.MaxPriority, MaxWeight: q.MaxWeight,
			Guarantee: q.Guarantee, Limit: q.Limit, Weight: q.Weight, MaxJob: q.MaxJob, MaxJobs: q.MaxJobs, MaxTime: q.MaxTime.Seconds(),
			MaxTimeAction: q.MaxTimeAction, ReclaimAfter: q.ReclaimAfter.Seconds(), Order: q.Order, Policy: q.Policy,
		}
		s.HalfLife = q.HalfLife.Seconds()
		if q.PerNamespace != nil {
			n := api.NamespaceStatus(*q.PerNamespace)
			s.PerNamespace = &n
		}
		out = append(out, s)
	}
	return out
}

func jobStatus(j *planner.Job, f *cluster.Facts, h Job, w planner.Want, wait planner.Wait, now time.Time) api.JobStatus {
	curve := speedup.NewCurve(h.Points()...)
	js := api.JobStatus{
		JobKey: j.Key, Pool: j.Pool, Queue: cmp.Or(f.Queue, f.Spec.Queue), Tenant: f.Tenant,
		Count: j.Count(), Running: f.Training(), Spares: j.HeldSpares(), Want: w.Count, Min: j.Min, Max: j.Max, Reason: w.Reason,
		HoldReason: wait.Why, HoldUntil: wait.Until, Seen: h.FirstSeen, Started: h.FirstStart, Completed: h.Completed,
		Attained: h.Attained, Resizes: h.Resizes, Step: h.Done, Total: h.Work(f.Spec.TotalWork), Loss: h.Loss, Size: h.Size, Gaps: h.Gaps, LostSteps: h.Repeated(),
		StepTimes: curve.Points(), Notes: f.Notes, WriteError: h.WriteError, Idle: h.Idle.Seconds(), IdleBy: h.IdleBy, Straggler: h.Straggler, Hangs: h.Hangs.Seconds(),
		Requests: api.Requests{
			Kind: f.Spec.Kind, Preferred: f.Spec.Preferred, Spare: f.Spec.Spare, Sizes: j.Sizes, Slots: f.Slots, Weight: f.Spec.Weight, Priority: f.Spec.Priority,
			Preemptible: j.Preemptible, Deadline: f.Spec.DeadlineOf(h.Submitted),
		},
	}
	for g, n := range j.Ratio {
		if js.Requests.Ratio == nil {
			js.Requests.Ratio = map[string]int{}
		}
		js.Requests.Ratio[j.Groups[g].Name] = n
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
	if a := h.Adaptive; a != nil {
		js.Adaptive = &api.Adaptive{Initial: a.Initial, Batch: a.Batch, Accumulation: a.Accumulation, Efficiency: a.Efficiency, LRFactor: a.LRFactor, Kept: h.KeepsBatch}
	}
	js.Progress = progress(&js)
	if left, ok := h.Left(f.Spec.TotalWork, f.Training(), curve); ok && js.State == api.StateRunning && left <= maxETA {
		js.ETA = now.Add(time.Duration(left * float64(time.Second))).Round(time.Second)
	}
	return js
}

// progress returns the part of a job's work that is done. It is 1 for a complete job, even
// though the job's last report precedes its last step.
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
