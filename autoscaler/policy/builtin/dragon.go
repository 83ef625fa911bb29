// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// dragon decides by timers and bounds only: running jobs shrink to their minimum
// when a job has waited too long, and grow when the cluster is idle.
//
// DRAGON's controller starts one job per pass and shrinks in a separate pass,
// because pods take time to go; its passes follow each other at once. Here one
// decision does the work of the whole series.
type dragon struct {
	Starved float64 `hcl:"starved,optional" doc:"seconds after which a waiting job makes others shrink"`
	Idle    float64 `hcl:"idle,optional" doc:"seconds without a start, shrink or growth after which running jobs grow"`
}

// Check implements registry.Checker.
func (g dragon) Check() (string, string) {
	switch {
	case !(g.Starved >= 0):
		return "starved", "must not be negative"
	case !(g.Idle >= 0):
		return "idle", "must not be negative"
	}
	return "", ""
}

var dragonEntry = registry.Define(registry.Info{
	Name:   "dragon",
	Doc:    "Jobs start in order of arrival at preferred or minimum size; for a starved job, running jobs shrink to their minimum; on an idle cluster, jobs grow.",
	Source: "DRAGON (CLOSER'19)",
	Needs:  "nothing",
}, dragon{Starved: 120, Idle: 60}, dragon.allocate)

// dragonState is the state that DRAGON keeps in its controller.
type dragonState struct {
	Helped string  `json:"helped,omitempty"` // the job that others last shrank for
	Since  float64 `json:"since"`            // last start, shrink or growth
}

func (g dragon) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	state := load[dragonState](s)
	if len(s.State) == 0 {
		state.Since = s.Now
	}
	idle := s.Now-state.Since >= g.Idle
	for _, p := range pools {
		p.hold(true)
		busy := g.help(s, p, &state)
		for _, c := range p.byPriority(nil) {
			if c.n > 0 {
				continue
			}
			if c.Preferred < c.low {
				c.want = c.low
			}
			if p.set(c, c.want) || p.set(c, c.low) {
				c.why = "its turn in order of arrival"
				busy = true
			}
		}
		if !busy && idle {
			free := p.free
			p.grow(p.jobs, -1, "grows: the cluster was idle")
			busy = p.free != free
		}
		if busy {
			state.Since = s.Now
		}
		g.alarms(s, &d, p, &state)
	}
	if !slices.ContainsFunc(s.Jobs, func(j policy.Job) bool { return j.ID == state.Helped }) {
		state.Helped = ""
	}
	settle(&d, pools)
	save(&d, state)
	return d
}

// help shrinks running jobs in order of arrival until the smallest starved
// job fits, and starts it.
func (g dragon) help(s *policy.Snapshot, p *pool, state *dragonState) bool {
	var least *candidate
	surplus := 0
	for _, c := range p.jobs {
		switch {
		case c.n > 0:
			surplus += c.cost(c.n) - c.cost(c.low)
		case g.starved(s, c) && c.ID != state.Helped:
			if least == nil || c.cost(c.low) < least.cost(least.low) {
				least = c
			}
		}
	}
	if least == nil || p.free >= least.cost(least.low) || surplus+p.free < least.cost(least.low) {
		return false
	}
	for _, c := range p.jobs {
		for c.n > c.low && p.free < least.cost(least.low) {
			p.set(c, c.floor(c.n-1))
			c.why = "makes room for a job that waited long"
		}
	}
	p.set(least, least.low)
	least.why = "waited long, so others shrank"
	state.Helped = least.ID
	return true
}

func (g dragon) starved(s *policy.Snapshot, c *candidate) bool {
	return s.Now-max(c.Submit, c.LastChange) >= g.Starved
}

// alarms requests a decision for each time at which one of the timers expires.
func (g dragon) alarms(s *policy.Snapshot, d *policy.Decision, p *pool, state *dragonState) {
	for _, c := range p.jobs {
		if c.n == 0 {
			requeue(d, s.Now, max(c.Submit, c.LastChange)+g.Starved)
		} else if p.free > 0 && c.n < c.high {
			requeue(d, s.Now, state.Since+g.Idle)
		}
	}
}
