// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin/policypb"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

func toWire(s *policy.Snapshot) *policypb.Snapshot {
	out := &policypb.Snapshot{
		Now: s.Now, Seed: s.Seed, ResizeCost: s.ResizeCost, Changed: s.Changed, State: s.State,
	}
	for _, n := range s.Nodes {
		out.Nodes = append(out.Nodes, &policypb.Node{Id: n.ID, Type: n.Type, Gpus: int64(n.GPUs), Free: int64(n.Free)})
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		w := &policypb.Job{
			Id: j.ID, Tenant: j.Tenant, Type: j.Type, Weight: j.Weight, Priority: int64(j.Priority),
			Submit: j.Submit, FirstStart: j.FirstStart, LastChange: j.LastChange, Deadline: j.Deadline,
			Min: int64(j.Min), Max: int64(j.Max), Preferred: int64(j.Preferred), PerWorker: int64(j.PerWorker),
			Count: int64(j.Count), Preemptible: j.Preemptible, Resizes: int64(j.Resizes), Attained: j.Attained,
			RunTime: j.RunTime, Remaining: j.Remaining, Done: j.Done,
		}
		w.Sizes, w.Step = sizesToWire(j.Sizes, j.Min, j.Max)
		if a := &j.Alike; a.Count > 0 {
			w.Alike = &policypb.Lengths{Origin: string(a.Origin), Count: int64(a.Count), Median: a.Median, Spread: a.Spread}
		}
		for _, p := range j.Curve.Points() {
			w.Curve = append(w.Curve, &policypb.Point{Size: int64(p.Size), StepTime: p.StepTime, Samples: int64(p.Samples), Spread: p.Spread})
		}
		out.Jobs = append(out.Jobs, w)
	}
	return out
}

func fromWire(s *policypb.Snapshot) *policy.Snapshot {
	out := &policy.Snapshot{Now: s.GetNow(), Seed: s.GetSeed(), ResizeCost: s.GetResizeCost(), Changed: s.GetChanged(), State: s.GetState()}
	for _, n := range s.GetNodes() {
		out.Nodes = append(out.Nodes, policy.Node{ID: n.GetId(), Type: n.GetType(), GPUs: int(n.GetGpus()), Free: int(n.GetFree())})
	}
	for _, j := range s.GetJobs() {
		o := policy.Job{
			ID: j.GetId(), Tenant: j.GetTenant(), Type: j.GetType(), Weight: j.GetWeight(), Priority: int(j.GetPriority()),
			Submit: j.GetSubmit(), FirstStart: j.GetFirstStart(), LastChange: j.GetLastChange(), Deadline: j.GetDeadline(),
			Min: int(j.GetMin()), Max: int(j.GetMax()), Preferred: int(j.GetPreferred()), PerWorker: int(j.GetPerWorker()),
			Count: int(j.GetCount()), Preemptible: j.GetPreemptible(), Resizes: int(j.GetResizes()), Attained: j.GetAttained(),
			RunTime: j.GetRunTime(), Remaining: j.GetRemaining(), Done: j.GetDone(),
		}
		if a := j.GetAlike(); a != nil {
			o.Alike = length.Sample{Origin: length.Origin(a.GetOrigin()), Count: int(a.GetCount()), Median: a.GetMedian(), Spread: a.GetSpread()}
		}
		o.Sizes = sizesFromWire(j.GetSizes(), j.GetStep())
		var points []speedup.Point
		for _, p := range j.GetCurve() {
			points = append(points, speedup.Point{Size: int(p.GetSize()), StepTime: p.GetStepTime(), Samples: int(p.GetSamples()), Spread: p.GetSpread()})
		}
		o.Curve = speedup.NewCurve(points...)
		out.Jobs = append(out.Jobs, o)
	}
	return out
}

// listedSizes is how many sizes are sent to a policy one by one if a step defines
// them. Policies written for a list then need not know about steps.
const listedSizes = 64

// sizesToWire returns the sizes from low to high: as a list if it is short, else as
// the first size and a step.
func sizesToWire(s sizes.Set, low, high int) (list []int64, step int64) {
	switch {
	case s.All():
		return nil, 0
	case s.Step() > 0 && s.Count(low, high) > listedSizes:
		return []int64{int64(s.Above(low - 1))}, int64(s.Step())
	}
	for n := s.Above(low - 1); n > 0 && n <= high; n = s.Above(n) {
		list = append(list, int64(n))
	}
	return list, 0
}

func sizesFromWire(list []int64, step int64) sizes.Set {
	if step > 0 && len(list) > 0 {
		return sizes.Every(int(list[0]), int(step))
	}
	numbers := make([]int, len(list))
	for i, n := range list {
		numbers[i] = int(n)
	}
	return sizes.List(numbers...)
}

func decisionToWire(d policy.Decision) *policypb.Decision {
	out := &policypb.Decision{State: d.State, RequeueAt: d.RequeueAt}
	for _, a := range d.Allocations {
		out.Allocations = append(out.Allocations, &policypb.Allocation{Job: a.Job, Count: int64(a.Count), Reason: a.Reason})
	}
	return out
}

// stateLimit bounds the state that a policy may return, which shares a Nomad
// variable with other data.
const stateLimit = 16 << 10

// reasonLimit is how many bytes of a reason are shown.
const reasonLimit = 500

// decisionFromWire puts a decision into the order of the snapshot's jobs. The
// caller validates it like the decision of a built-in policy.
func decisionFromWire(s *policy.Snapshot, d *policypb.Decision) (policy.Decision, error) {
	if len(d.GetState()) > stateLimit {
		return policy.Decision{}, fmt.Errorf("its state has %d bytes, more than %d", len(d.GetState()), stateLimit)
	}
	by := make(map[string]*policypb.Allocation, len(d.GetAllocations()))
	for _, a := range d.GetAllocations() {
		if by[a.GetJob()] != nil {
			return policy.Decision{}, fmt.Errorf("it answered twice for job %s", a.GetJob())
		}
		by[a.GetJob()] = a
	}
	out := policy.Decision{State: d.GetState(), RequeueAt: d.GetRequeueAt()}
	for i := range s.Jobs {
		a := by[s.Jobs[i].ID]
		if a == nil {
			return policy.Decision{}, fmt.Errorf("it did not answer for job %s", s.Jobs[i].ID)
		}
		reason := a.GetReason()
		if len(reason) > reasonLimit {
			reason = strings.ToValidUTF8(reason[:reasonLimit], "") + "…"
		}
		out.Allocations = append(out.Allocations, policy.Allocation{Job: a.GetJob(), Count: int(a.GetCount()), Reason: reason})
		delete(by, a.GetJob())
	}
	for id := range by {
		return policy.Decision{}, fmt.Errorf("it answered for job %q, which it was not asked about", id)
	}
	return out, nil
}
