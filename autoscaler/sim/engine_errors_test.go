// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"context"
	"math"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// rogue is a policy that breaks a rule.
type rogue struct {
	counts []int
	name   string
}

func (rogue) Name() string { return "rogue" }

func (r rogue) Allocate(s *policy.Snapshot) policy.Decision {
	d := policy.Decision{}
	for i, n := range r.counts {
		id := s.Jobs[min(i, len(s.Jobs)-1)].ID
		if r.name != "" {
			id = r.name
		}
		d.Allocations = append(d.Allocations, policy.Allocation{Job: id, Count: n})
	}
	return d
}

func TestRun_RefusesBrokenRules(t *testing.T) {
	for name, c := range map[string]struct {
		policy rogue
		want   string
	}{
		"too many GPUs":  {rogue{counts: []int{5}}, "5 workers for job a: they need 5 slots, and 4 are left"},
		"beyond the max": {rogue{counts: []int{9}}, "9 workers for job a: it takes 0, or 1 to 8"},
		"none":           {rogue{}, "it answered for 0 jobs of 1"},
		"wrong job":      {rogue{counts: []int{1}, name: "b"}, `answer 0 is for job "b", want "a"`},
		"negative":       {rogue{counts: []int{-1}}, "-1 workers for job a: it takes 0, or 1 to 8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sim.Run(t.Context(), sim.Config{Nodes: sim.Uniform(1, 4, ""), Trace: one(10, 8), Policy: c.policy})
			must.ErrorContains(t, err, c.want)
			must.ErrorContains(t, err, "policy rogue broke a rule")
		})
	}
}

func TestRun_RefusesBadConfigs(t *testing.T) {
	good := sim.Config{Nodes: sim.Uniform(1, 4, ""), Trace: one(10, 4), Policy: fifo{}}
	for name, c := range map[string]struct {
		change func(*sim.Config)
		want   string
	}{
		"no jobs":           {func(c *sim.Config) { c.Trace = &trace.Trace{} }, "no jobs"},
		"no policy":         {func(c *sim.Config) { c.Policy = nil }, "no policy"},
		"no nodes":          {func(c *sim.Config) { c.Nodes = nil }, "no nodes"},
		"empty node":        {func(c *sim.Config) { c.Nodes = []trace.Node{{ID: "x"}} }, "has 0 GPUs"},
		"twins":             {func(c *sim.Config) { c.Nodes = append(c.Nodes, c.Nodes[0]) }, "two nodes are named"},
		"unknown node":      {func(c *sim.Config) { c.Events = []trace.NodeEvent{{Node: "y"}} }, "unknown node"},
		"faults by count":   {func(c *sim.Config) { c.Placement = sim.CountOnly; c.Events = []trace.NodeEvent{{Node: "node-0"}} }, "only with placement"},
		"a job without end": {func(c *sim.Config) { c.Trace = one(math.Inf(1), 4) }, "steps"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			_, err := sim.Run(t.Context(), cfg)
			must.ErrorContains(t, err, c.want)
		})
	}
}

func TestRun_StopsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sim.Run(ctx, sim.Config{Nodes: sim.Uniform(1, 4, ""), Trace: one(10, 4), Policy: fifo{}})
	must.ErrorIs(t, err, context.Canceled)
}
