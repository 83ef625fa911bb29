// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// pool is the policy of one node pool at work.
type pool struct {
	spec    string // as written
	policy  policy.Policy
	problem string
	last    map[planner.JobKey]planner.Want // the last good decision
	seen    uint64                          // fingerprint of what the policy saw

	// Of a policy of one's own, which may take its time:
	asked *question // under way or answered, nil for none
	again bool      // something happened since it was asked
}

// policyOf returns the pool's policy, made anew after a change of wish or
// configuration. A policy that cannot be made leaves the one before in force.
func (a *Controller) policyOf(name string) *pool {
	spec := a.control.Policies[name]
	cfg := a.cfg.Pool(name)
	if spec == "" {
		spec = cfg.Policy
	}
	p := a.policies[name]
	if p != nil && p.spec == spec && (p.policy != nil || p.problem == "") {
		return p
	}
	var made policy.Policy
	var err error
	switch written := a.control.Policies[name]; {
	case written != "":
		made, err = a.parsePolicy(written)
	default:
		made, err = a.makePolicy(cfg.Policy, func() (policy.Policy, error) { return policy.New(cfg.Policy, cfg.Options) })
	}
	if p == nil {
		p = &pool{last: map[planner.JobKey]planner.Want{}}
		a.policies[name] = p
	}
	if err != nil {
		if p.problem != err.Error() {
			a.log.Error("policy cannot be used; the last decision stays in force", "pool", name, "policy", spec, "error", err)
		}
		p.problem = err.Error()
		return p
	}
	p.spec, p.policy, p.problem, p.seen, p.asked = spec, made, "", 0, nil
	return p
}

func (a *Controller) parsePolicy(line string) (policy.Policy, error) {
	if err := policy.CheckLine(line); err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(line), "(")
	return a.makePolicy(strings.TrimSpace(name), func() (policy.Policy, error) { return policy.Parse(line) })
}

// makePolicy prefers the built-in policy of that name.
func (a *Controller) makePolicy(name string, builtIn func() (policy.Policy, error)) (policy.Policy, error) {
	if _, ok := policy.Describe(name); ok || a.own == nil {
		return builtIn()
	}
	return a.own.Policy(name)
}

// movable says whether a policy may decide about the job now. What it may not
// move counts as other workload.
func movable(j *planner.Job, now time.Time) bool {
	return j.Frozen == "" && j.Left == "" && !j.HandUntil.After(now)
}

// snapshot is a pool as its policy sees it, and the index of each job in v.
func (a *Controller) snapshot(v *cluster.View, name string, p *pool, now time.Time) (*policy.Snapshot, []int) {
	s := &policy.Snapshot{
		Now: seconds(now), Seed: 1, ResizeCost: a.cfg.Planner.ResizeCost.Seconds(), State: a.ledger.States[name],
	}
	bins := map[planner.Place]int{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Pool != name || n.State == planner.Leaving {
			continue
		}
		for b, bin := range n.Bins {
			g := max(0, bin.Slots)
			if n.State == planner.Closed {
				g = 0 // what is held there is added below
			}
			bins[planner.Place{Node: i, Bin: b}] = len(s.Nodes)
			s.Nodes = append(s.Nodes, policy.Node{ID: fmt.Sprintf("%s/%d", n.ID, b), Type: bin.Type, GPUs: g, Free: g})
		}
	}
	reserve := v.Others[name]
	var index []int
	costs := map[string][]float64{} // by namespace
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		if j.Pool != name {
			continue
		}
		may := movable(j, now)
		for _, g := range j.Groups {
			for _, w := range g.Live {
				at, ok := bins[w.Place]
				if !ok {
					continue
				}
				n := &s.Nodes[at]
				switch closed := v.Nodes[w.Node].State == planner.Closed; {
				case closed && may:
					n.GPUs += g.Need.Slots
				case closed:
				case may:
					n.Free = max(0, n.Free-g.Need.Slots)
				default:
					n.GPUs = max(0, n.GPUs-g.Need.Slots)
					n.Free = max(0, n.Free-g.Need.Slots)
				}
			}
		}
		if !may {
			// Its workers that have no place yet take room somewhere, too.
			if j.Frozen == "" {
				reserve += max(0, j.Count()-j.Alive()) * f.Slots
			}
			continue
		}
		r := a.ledger.Jobs[j.Key]
		for _, g := range r.Gaps {
			costs[j.Key.Namespace] = append(costs[j.Key.Namespace], g.Seconds)
		}
		index = append(index, i)
		s.Jobs = append(s.Jobs, policyJob(j, f, r, a.ledger.Kinds[kindKey(j.Key, f)]))
	}
	take(s, reserve)
	s.ResizeCost = resizeCost(costs, s.ResizeCost)
	sum := fingerprint(s)
	s.Changed = sum != p.seen
	p.seen = sum
	return s, index
}

// mostCost is the longest gap, in seconds, that counts as the cost of a resize;
// the configuration's resize_cost is bounded by the same.
const mostCost = 3600

// resizeCost is the median of the measured gaps, by namespace, and of those the
// median, the lower of two: trainings measure their own gaps, and what those of
// one tenant say must not keep the jobs of all others at their sizes. without is
// the cost where nothing is measured.
func resizeCost(gaps map[string][]float64, without float64) float64 {
	var medians []float64
	for _, of := range gaps {
		of = slices.DeleteFunc(of, func(g float64) bool { return g > mostCost })
		if len(of) > 0 {
			slices.Sort(of)
			medians = append(medians, of[len(of)/2])
		}
	}
	if len(medians) == 0 {
		return without
	}
	slices.Sort(medians)
	return medians[(len(medians)-1)/2]
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

func policyJob(j *planner.Job, f *cluster.Facts, r *Record, kind *Kind) policy.Job {
	out := policy.Job{
		ID: j.Key.Namespace + "/" + j.Key.ID, Tenant: f.Spec.Queue, Type: f.Type, Weight: f.Spec.Weight, Priority: f.Spec.Priority,
		Submit: seconds(r.FirstSeen), FirstStart: seconds(r.FirstStart), LastChange: seconds(r.LastChange), Deadline: seconds(r.deadline(f.Spec)),
		Min: j.Min, Max: j.Max, Preferred: f.Spec.Preferred, Sizes: j.Sizes, PerWorker: f.Slots,
		Count: j.Count(), Suspendable: j.Suspendable, Resizes: r.Resizes, Attained: r.Attained, RunTime: r.RunTime,
		Curve: kind.extend(r.points(), r.doubted()), Done: r.Done,
	}
	total := f.Spec.TotalWork
	if total == 0 {
		total = r.Total
	}
	out.Remaining = max(0, total-r.Done)
	return out
}

// seconds is Unix time, 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// fingerprint covers what counts as a change for policies that decide on
// events only: jobs, bounds, capacity and the shapes of curves, not the passing
// of time.
func fingerprint(s *policy.Snapshot) uint64 {
	h := fnv.New64a()
	add := func(parts ...any) { h.Write(fmt.Append(nil, parts...)) }
	for _, n := range s.Nodes {
		add(n.ID, n.Type, n.GPUs, ";")
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		add(j.ID, j.Tenant, j.Type, j.Weight, j.Priority, j.Min, j.Max, j.Preferred, j.Sizes, j.Suspendable, j.Deadline, ";")
		add(j.Curve.Largest(), ";")
		points := j.Curve.Points()
		for _, p := range points {
			add(p.Size, math.Round(100*math.Log(p.StepTime/points[0].StepTime)), ",")
		}
	}
	return h.Sum64()
}
