// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/timeline"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Nodes converts machines to the API's form, with their paths in the topology of their pool.
func Nodes(v *cluster.View, machines []cluster.Machine) []api.Node {
	at := make(map[string]int, len(v.Nodes))
	for i := range v.Nodes {
		at[v.Nodes[i].ID] = i
	}
	out := make([]api.Node, 0, len(machines))
	for i := range machines {
		m := &machines[i]
		n := api.Node{ID: m.ID, Name: m.Name, Pool: m.Pool, Class: m.Class, State: m.State, Slots: m.Total, Held: []api.Held{}}
		if i, ok := at[m.ID]; ok {
			n.Path = pathOf(v, i)
		}
		for _, d := range m.Devices {
			if d.Sick {
				n.Sick++
				n.Problems = append(n.Problems, d.Group+" "+d.ID+": "+reasonOr(d.Why))
			}
		}
		for k := range m.Held {
			h := &m.Held[k]
			n.Held = append(n.Held, api.Held{JobKey: &h.Job, Alloc: h.Alloc, Slots: h.Slots, Elastic: h.Elastic, Ending: h.Ending})
		}
		out = append(out, n)
	}
	return out
}

func reasonOr(why string) string {
	if why == "" {
		return "unhealthy"
	}
	return why
}

// pathOf returns a node's values of the levels of its pool's topology. It stops before the
// first level at which the node has several domains, such as sockets.
func pathOf(v *cluster.View, node int) (path []string) {
	t := v.Topologies[v.Nodes[node].Pool]
	if t == nil || len(v.Nodes[node].Bins) == 0 {
		return nil
	}
	first := t.Leaf(node, 0)
	if first < 0 {
		return nil
	}
	for l := range t.Levels() {
		d := t.Domain(l, first)
		for bin := range v.Nodes[node].Bins {
			if leaf := t.Leaf(node, bin); leaf >= 0 && t.Domain(l, leaf) != d {
				return path
			}
		}
		path = append(path, t.Domains(l)[d].Name)
	}
	return path
}

// Series converts a series to the API's form.
func Series(s *timeline.Series) *api.Series {
	out := &api.Series{Time: []float64{}, Size: []int{}, Step: []float64{}, Resizes: []api.RingResize{}}
	samples := s.Samples()
	sampled := slices.ContainsFunc(samples, func(p timeline.Sample) bool { return p.Samples > 0 })
	lost := slices.ContainsFunc(samples, func(p timeline.Sample) bool { return p.Loss != nil })
	for _, p := range samples {
		out.Time = append(out.Time, float64(p.At.UnixMilli())/1000)
		out.Size = append(out.Size, p.Size)
		out.Step = append(out.Step, p.Step)
		if sampled {
			out.Samples = append(out.Samples, p.Samples)
		}
		if lost {
			out.Loss = append(out.Loss, p.Loss)
		}
	}
	for _, m := range s.Marks() {
		out.Resizes = append(out.Resizes, api.RingResize{Time: m.At, From: m.From, To: m.To, Cause: m.Cause, Seconds: m.Seconds, Lost: m.Lost})
	}
	return out
}

// Bounds of what is kept of a report, which a tenant's process sends.
const (
	mostRanks = 4096
	mostText  = 500 // bytes
	allocID   = 36  // bytes of the ID of an allocation
)

// Training returns the part of a training's report that is kept for display.
func Training(p *history.Progress) *api.Training {
	out := &api.Training{Phase: cut(p.Phase), Hold: cut(p.Hold), Ranks: map[string][]int{}}
	if s := p.Stall; s != nil {
		out.Stall = &api.Stall{Size: s.Size, Seconds: s.Seconds, Stacks: s.Stacks}
		if s.Time > 0 {
			out.Stall.Time = time.UnixMilli(int64(s.Time * 1000)).UTC()
		}
	}
	for _, r := range p.Ranks[:min(len(p.Ranks), mostRanks)] {
		if len(r.AllocID) == allocID {
			out.Ranks[r.AllocID] = append(out.Ranks[r.AllocID], r.Rank)
		}
	}
	return out
}

// cut returns a copy of a text that has at most mostText bytes.
func cut(s string) string {
	if len(s) <= mostText {
		return s
	}
	return strings.ToValidUTF8(s[:mostText], "") + "…"
}

// Mark converts a resize that a training reported to the form in which a series keeps it. Its
// cause is "failure" if the report says so, and "resize" otherwise.
func Mark(r *history.Resize) timeline.Mark {
	m := timeline.Mark{At: time.UnixMilli(int64(r.Time * 1000)).UTC(), From: r.From, To: r.To, Cause: "resize", Seconds: r.GapSeconds, Lost: r.LostSteps}
	if r.Cause == "failure" {
		m.Cause = r.Cause
	}
	return m
}

// mostSizes bounds the number of sizes in a curve.
const mostSizes = 64

// Curve returns the measured step times of a job, and estimates for the other sizes that the
// job may have.
func Curve(measured []speedup.Point, believed speedup.Curve, j *planner.Job) (out []api.CurvePoint) {
	if !believed.Measured() {
		return nil // without a measurement, times have no unit
	}
	known := map[int]bool{}
	for _, p := range measured {
		known[p.Size] = true
		out = append(out, api.CurvePoint{Size: p.Size, StepTime: p.StepTime, Measured: true})
	}
	for n := j.Sizes.Above(max(1, j.Min) - 1); n > 0 && n <= j.Max && len(out) < mostSizes; n = j.Sizes.Above(n) {
		if t := believed.Time(n); !known[n] && t > 0 && !math.IsInf(t, 0) {
			out = append(out, api.CurvePoint{Size: n, StepTime: t})
		}
	}
	slices.SortFunc(out, func(a, b api.CurvePoint) int { return a.Size - b.Size })
	return out
}

// Allocations returns the allocations of a job that hold slots, with the ranks that the job's
// training last reported.
func Allocations(key identity.JobKey, machines []cluster.Machine, t *api.Training) (out []api.JobAllocation) {
	for i := range machines {
		m := &machines[i]
		for k := range m.Held {
			h := &m.Held[k]
			if h.Job != key {
				continue
			}
			a := api.JobAllocation{ID: h.Alloc, Group: h.Group, Node: m.Name, Slots: h.Slots, Devices: h.Devices, Ending: h.Ending, Created: h.Created}
			for _, d := range m.Devices {
				if d.Sick && slices.Contains(h.Devices, d.ID) {
					a.Sick = append(a.Sick, d.ID)
				}
			}
			if t != nil {
				a.Ranks = t.Ranks[h.Alloc]
			}
			out = append(out, a)
		}
	}
	return out
}
