// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// restless is a policy that gives random, but allowed counts: the hardest case for a
// simulator.
type restless struct{}

func (restless) Name() string { return "restless" }

func (restless) Allocate(s *policy.Snapshot) policy.Decision {
	rng := rand.New(rand.NewPCG(s.Seed, uint64(s.Now*1000)))
	room := map[string]int{}
	for _, n := range s.Nodes {
		room[n.Type] += n.GPUs
	}
	d := policy.Decision{Allocations: make([]policy.Allocation, len(s.Jobs))}
	types := make([]string, 0, len(room))
	for t := range room {
		types = append(types, t)
	}
	slices.Sort(types)
	for _, i := range rng.Perm(len(s.Jobs)) {
		j := &s.Jobs[i]
		a := &d.Allocations[i]
		a.Job, a.Type = j.ID, j.Type
		if a.Type == "" && len(types) > 0 {
			a.Type = types[rng.IntN(len(types))]
		}
		counts := []int{0}
		for n := j.Min; n <= j.Max && n*j.PerWorker <= room[a.Type]; n++ {
			if j.Sizes.Contains(n) {
				counts = append(counts, n)
			}
		}
		a.Count = counts[rng.IntN(len(counts))]
		if rng.IntN(3) > 0 { // mostly something, so that the trace ends
			a.Count = counts[len(counts)-1]
		}
		room[a.Type] -= a.Count * j.PerWorker
	}
	d.RequeueAt = s.Now + 50 + 200*rng.Float64()
	return d
}

// drawNodes draws a small cluster of one or two GPU types.
func drawNodes(t *rapid.T) []trace.Node {
	nodes := sim.Uniform(rapid.IntRange(1, 5).Draw(t, "nodes"), rapid.IntRange(1, 8).Draw(t, "gpus"), "")
	if rapid.Bool().Draw(t, "second type") {
		nodes = append(sim.Uniform(len(nodes), nodes[0].GPUs, "t4"),
			sim.Uniform(rapid.IntRange(1, 3).Draw(t, "fast nodes"), rapid.IntRange(1, 8).Draw(t, "fast gpus"), "a100")...)
	}
	return nodes
}

// drawTrace draws a workload whose jobs all fit the cluster alone.
func drawTrace(t *rapid.T, nodes []trace.Node) *trace.Trace {
	types := []string{nodes[0].Type}
	if last := nodes[len(nodes)-1].Type; last != types[0] {
		types = append(types, last)
	}
	// Only whole workers on each node count as room.
	room := func(typ string, per int) (workers int) {
		for _, n := range nodes {
			if n.Type == typ {
				workers += n.GPUs / per
			}
		}
		return workers
	}
	tr := &trace.Trace{Name: "drawn"}
	now := 0.0
	for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
		now += rapid.Float64Range(0, 500).Draw(t, "gap")
		typ := rapid.SampledFrom(types).Draw(t, "type")
		per := rapid.IntRange(1, 2).Draw(t, "per worker")
		most := room(typ, per)
		if len(types) > 1 && rapid.IntRange(0, 2).Draw(t, "any type") == 0 {
			// It must fit whichever type a policy puts it on.
			typ, most = "", min(room(types[0], per), room(types[1], per))
		}
		if most == 0 {
			typ, per = types[0], 1
			most = room(typ, 1)
		}
		j := trace.Job{
			ID: fmt.Sprintf("job-%02d", i), App: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "app"), Tenant: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"),
			Type: typ, Weight: 1, Submit: now, Preemptible: true, PerWorker: per,
			Steps: rapid.Float64Range(1, 2000).Draw(t, "steps"),
		}
		j.Min = rapid.IntRange(1, min(3, most)).Draw(t, "min")
		j.Max = rapid.IntRange(j.Min, most).Draw(t, "max")
		j.Preferred = rapid.IntRange(j.Min, j.Max).Draw(t, "preferred")
		if j.Max > j.Min && rapid.Bool().Draw(t, "sizes") {
			j.Sizes = sizes.List(j.Min, j.Max)
			j.Preferred = j.Max
		}
		if rapid.IntRange(0, 3).Draw(t, "deadline") == 0 {
			j.Deadline = now + rapid.Float64Range(1, 5000).Draw(t, "slack")
		}
		times := rapid.SliceOfN(rapid.Float64Range(0.05, 3), j.Max, j.Max).Draw(t, "times")
		slices.SortFunc(times, func(a, b float64) int { return -cmpFloat(a, b) }) // more workers are not slower
		var err error
		if j.Curve, err = trace.NewCurve(times); err != nil {
			t.Fatal(err)
		}
		tr.Jobs = append(tr.Jobs, j)
	}
	return tr
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// drawPolicy draws one of the shipped policies, or the restless one.
func drawPolicy(t *rapid.T) policy.Policy {
	name := rapid.SampledFrom(append(builtin.Policies.Names(), "restless")).Draw(t, "policy")
	if name == "restless" {
		return restless{}
	}
	p, err := builtin.Policies.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawConfig draws a whole simulation, with or without failing nodes.
func drawConfig(t *rapid.T, faults bool) sim.Config {
	nodes := drawNodes(t)
	cfg := sim.Config{
		Nodes: nodes, Trace: drawTrace(t, nodes), Policy: drawPolicy(t), History: true,
		Info: sim.Info{
			Remaining: rapid.Bool().Draw(t, "remaining"), Curves: rapid.Bool().Draw(t, "curves"),
			Kinds: rapid.Bool().Draw(t, "kinds"),
			Noise: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "noise"),
		},
		Resize:    sim.ResizeCost{Constant: rapid.Float64Range(0, 20).Draw(t, "resize cost")},
		Placement: rapid.SampledFrom([]sim.Placement{sim.Pack, sim.Spread, sim.CountOnly}).Draw(t, "placement"),
		Interval:  rapid.SampledFrom([]float64{0, 30}).Draw(t, "interval"),
		Hold:      rapid.SampledFrom([]float64{0, 0, 40}).Draw(t, "hold"),
		Seed:      rapid.Uint64().Draw(t, "seed"),
	}
	if faults {
		cfg.Placement = rapid.SampledFrom([]sim.Placement{sim.Pack, sim.Spread}).Draw(t, "placement with faults")
		cfg.Commit = rapid.SampledFrom([]float64{0, 7, 60}).Draw(t, "commit")
		// Few and short enough that the trace ends.
		for range rapid.IntRange(1, 6).Draw(t, "failures") {
			at := rapid.Float64Range(0, 3000).Draw(t, "at")
			node := rapid.SampledFrom(nodes).Draw(t, "node").ID
			kind := rapid.SampledFrom([]trace.NodeEventKind{trace.NodeDown, trace.NodeWithdraw}).Draw(t, "kind")
			cfg.Events = append(cfg.Events,
				trace.NodeEvent{Time: at, Node: node, Kind: kind},
				trace.NodeEvent{Time: at + rapid.Float64Range(1, 900).Draw(t, "away"), Node: node, Kind: trace.NodeUp})
		}
	}
	return cfg
}
