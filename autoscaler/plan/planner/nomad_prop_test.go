// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// TestProperty_GuaranteesHoldWhateverThePolicyWants plans for random clusters with random
// decisions of a policy, valid and impossible ones.
func TestProperty_GuaranteesHoldWhateverThePolicyWants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newNomad(t)
		var stale *Plan
		started := map[identity.JobKey]bool{}
		plan := func() *Plan {
			wants := make([]Want, len(s.jobs))
			for i := range wants {
				wants[i].Count = rapid.IntRange(-1, 12).Draw(t, "want")
			}
			p := Make(s.see(), wants, s.now, DefaultOptions())
			return &p
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(*rapid.T) { s.arrive() },
			"plan":   func(*rapid.T) { s.write(*plan()) },
			"plan and dawdle": func(*rapid.T) {
				stale = plan()
				for _, j := range s.jobs {
					started[j.Key] = j.Started
				}
			},
			"write late": func(t *rapid.T) {
				if stale == nil {
					t.Skip("no plan")
				}
				p := *stale
				stale = nil
				// The index protects growth on an outdated cluster only against
				// changes of its own job. The caller plans again for every
				// snapshot, so late plans only shrink here. Completions and
				// placements change no index: the writer looks at the job's
				// allocations again before each write.
				p.Actions = slices.DeleteFunc(p.Actions, func(a Action) bool {
					return a.To > a.From || slices.ContainsFunc(s.jobs, func(j *simJob) bool {
						return j.Key == a.Job && (j.Frozen != "" || j.Started != started[j.Key])
					})
				})
				s.write(p)
			},
			"place": func(*rapid.T) {
				for s.place() {
				}
			},
			"place one": func(*rapid.T) { s.place() },
			"end":       func(*rapid.T) { s.end() },
			"time":      func(*rapid.T) { s.tick(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second) },
			"complete": func(t *rapid.T) {
				s.draw("completing").Frozen = "a worker has completed"
			},
			"leave": func(t *rapid.T) {
				s.cluster.Nodes[rapid.IntRange(0, len(s.cluster.Nodes)-1).Draw(t, "node")].State = NodeState(rapid.IntRange(0, 2).Draw(t, "state"))
			},
			"by hand": func(t *rapid.T) {
				j := s.draw("by hand")
				j.Groups[0].Count = rapid.IntRange(0, j.Max).Draw(t, "count")
				s.index++
				j.Index, j.LastChange, j.ManualUntil = s.index, s.now, s.now.Add(time.Minute)
				s.stopHighest(j)
			},
			"purge": func(t *rapid.T) {
				j := s.draw("purged")
				s.jobs = slices.DeleteFunc(s.jobs, func(o *simJob) bool { return o == j })
			},
			"": func(*rapid.T) {},
		})
	})
}

// TestProperty_WhatIsAskedForIsPlaced checks that Nomad can place every requested worker at
// once, if nothing else changes the cluster.
func TestProperty_WhatIsAskedForIsPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newNomad(t)
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			s.arrive()
		}
		for round := range rapid.IntRange(1, 12).Draw(t, "rounds") {
			wants := make([]Want, len(s.jobs))
			for i := range wants {
				wants[i].Count = rapid.IntRange(0, 12).Draw(t, "want")
			}
			s.write(Make(s.see(), wants, s.now, DefaultOptions()))
			for s.place() {
			}
			for _, j := range s.jobs {
				if len(j.workers) < j.Count() {
					t.Fatalf("round %d: %s asked for %d workers and %d found a place", round, j.Key, j.Count(), len(j.workers))
				}
			}
			s.end()
			s.tick(time.Minute)
		}
	})
}

// TestProperty_Converges checks that feasible decisions are carried out, and that later
// plans are empty.
func TestProperty_Converges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newNomad(t)
		free := s.capacity()
		var wants []Want
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			s.arrive()
			j := s.jobs[len(s.jobs)-1]
			w := 0
			if free >= j.Min {
				w = rapid.IntRange(j.Min, min(j.Max, free)).Draw(t, "want")
			}
			free -= w
			wants = append(wants, Want{Count: w})
		}
		for range 4 {
			s.write(Make(s.see(), wants, s.now, DefaultOptions()))
			for s.place() {
			}
			s.end()
			s.tick(time.Minute)
		}
		for i, j := range s.jobs {
			if j.Count() != wants[i].Count {
				t.Fatalf("%s has %d, wanted %d", j.Key, j.Count(), wants[i].Count)
			}
		}
		if p := Make(s.see(), wants, s.now, DefaultOptions()); len(p.Actions) > 0 {
			t.Fatalf("does not rest: %+v", p.Actions)
		}
	})
}
