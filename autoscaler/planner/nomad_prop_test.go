// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/placement"
)

// nomad answers writes the way Nomad does: it refuses stale indexes, stops
// the highest worker first and lets it live on for a while, and places
// workers wherever they fit, which is not where the planner thought.
type nomad struct {
	t       *rapid.T
	now     time.Time
	cluster Cluster
	jobs    []*simJob
	index   uint64
}

type simJob struct {
	Job
	workers []worker
}

type worker struct {
	node     int
	stopping bool
}

func newNomad(t *rapid.T) *nomad {
	s := &nomad{t: t, now: now, index: 100}
	for i, n := range rapid.SliceOfN(rapid.IntRange(1, 8), 1, 6).Draw(t, "slots") {
		s.cluster.Nodes = append(s.cluster.Nodes, Node{ID: strconv.Itoa(i), Pool: "gpu", Bins: []Bin{{Slots: n}}})
	}
	return s
}

func (s *nomad) arrive() {
	min := rapid.IntRange(1, 4).Draw(s.t, "min")
	max := min + rapid.IntRange(0, 6).Draw(s.t, "extra")
	class := &Class{}
	for i := range s.cluster.Nodes {
		class.Places = append(class.Places, placement.Place{Node: i})
	}
	s.index++
	j := &simJob{Job: Job{
		Key: JobKey{"default", fmt.Sprint("j", s.index)}, Pool: "gpu", Index: s.index, Min: min, Max: max,
		Preemptible: rapid.Bool().Draw(s.t, "suspendable"),
		Groups:      []Group{{Name: "workers", Max: max, Need: placement.Need{Slots: 1}, Class: class}},
	}}
	s.jobs = append(s.jobs, j)
}

// see is the snapshot that the planner gets: true at this moment.
func (s *nomad) see() *Cluster {
	c := s.cluster
	c.Nodes = slices.Clone(s.cluster.Nodes)
	for _, j := range s.jobs {
		job := j.Job
		job.Groups = slices.Clone(job.Groups)
		job.Groups[0].Live = nil
		for _, w := range j.workers {
			job.Groups[0].Live = append(job.Groups[0].Live, Worker{placement.Place{Node: w.node}, w.stopping})
		}
		c.Jobs = append(c.Jobs, job)
	}
	return &c
}

// write applies a plan and checks every guarantee at every single write.
func (s *nomad) write(p Plan) {
	for _, a := range p.Actions {
		i := slices.IndexFunc(s.jobs, func(j *simJob) bool { return j.Key == a.Job })
		if i < 0 || s.jobs[i].Index != a.Index {
			continue // refused: gone, or changed since
		}
		j := s.jobs[i]
		before := j.Count()
		switch {
		case j.Frozen != "":
			s.t.Fatalf("touched a frozen job: %+v", a)
		case j.LastChange.Add(DefaultOptions().Hold).After(s.now) && before > 0 && a.Cause != Rollback && a.Cause != Keep:
			s.t.Fatalf("broke the hold time: %+v", a)
		case a.To > j.Max:
			s.t.Fatalf("above the maximum: %+v", a)
		case a.To == 0 && j.Started && !j.Preemptible:
			s.t.Fatalf("stopped a job that may not be suspended: %+v", a)
		case a.To > 0 && a.To < j.Min && a.To < before:
			s.t.Fatalf("below the minimum %d: %+v", j.Min, a)
		case before == 0 && a.To > 0 && a.To < j.Min:
			s.t.Fatalf("started with less than its gang: %+v", a)
		}
		j.Groups[0].Count = a.To
		j.LastChange = s.now
		if a.Cause == Rollback {
			j.Groups[0].GrowAfter = s.now.Add(DefaultOptions().PlacementRetry)
		}
		s.index++
		j.Index = s.index
		s.stopHighest(j)
		if a.To > before {
			if held, have := s.held(), s.capacity(); held > have {
				s.t.Fatalf("%+v: %d workers exist or may be placed on %d slots", a, held, have)
			}
		}
	}
}

func (s *nomad) stopHighest(j *simJob) {
	running := 0
	for i := range j.workers {
		if !j.workers[i].stopping {
			if running++; running > j.Count() {
				j.workers[i].stopping = true
			}
		}
	}
}

// held counts workers that sit on nodes with room, and those yet to come.
func (s *nomad) held() int {
	n := 0
	for _, j := range s.jobs {
		stay := 0
		for _, w := range j.workers {
			if s.cluster.Nodes[w.node].State != Draining && !w.stopping {
				stay++
			}
			if s.cluster.Nodes[w.node].State == Ready {
				n++
			}
		}
		if j.Frozen == "" {
			n += max(0, j.Count()-stay)
		}
	}
	return n
}

func (s *nomad) capacity() int {
	n := 0
	for _, node := range s.cluster.Nodes {
		if node.State == Ready {
			n += node.Bins[0].Slots
		}
	}
	return n
}

// place puts one pending worker on any node with room.
func (s *nomad) place() bool {
	for _, j := range s.jobs {
		running := 0
		for _, w := range j.workers {
			if !w.stopping {
				running++
			}
		}
		if running >= j.Count() || j.Frozen != "" {
			continue
		}
		var open []int
		for i, node := range s.cluster.Nodes {
			used := 0
			for _, o := range s.jobs {
				for _, w := range o.workers {
					if w.node == i {
						used++
					}
				}
			}
			if node.State == Ready && used < node.Bins[0].Slots {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			continue
		}
		j.workers = append(j.workers, worker{node: rapid.SampledFrom(open).Draw(s.t, "node")})
		j.Started = true
		return true
	}
	return false
}

func (s *nomad) tick(d time.Duration) {
	s.now = s.now.Add(d)
	for _, j := range s.jobs {
		if len(j.workers) >= j.Count() {
			j.PendingSince = time.Time{}
		} else if j.PendingSince.IsZero() {
			j.PendingSince = s.now
		}
	}
}

// end lets stopped workers, and all on nodes that are leaving, be gone.
func (s *nomad) end() {
	for _, j := range s.jobs {
		j.workers = slices.DeleteFunc(j.workers, func(w worker) bool {
			return w.stopping || s.cluster.Nodes[w.node].State == Draining
		})
	}
}

func (s *nomad) draw(what string) *simJob {
	if len(s.jobs) == 0 {
		s.t.Skip("no job")
	}
	return s.jobs[rapid.IntRange(0, len(s.jobs)-1).Draw(s.t, what)]
}

// TestProperty_GuaranteesHoldWhateverThePolicyWants drives random clusters
// with random wants, good ones and impossible ones.
func TestProperty_GuaranteesHoldWhateverThePolicyWants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newNomad(t)
		var stale *Plan
		started := map[JobKey]bool{}
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
				// Growth planned on a cluster that has changed since is
				// checked by index only for its own job; the caller plans
				// anew for every snapshot, so late plans only shrink here.
				// Completions and placements change no index: the writer looks
				// at the job's allocations again before each write.
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

// TestProperty_WhatIsAskedForIsPlaced says that growth is never asked for in
// vain: with nobody else at work, every worker finds a place at once.
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

// TestProperty_Converges says that a feasible wish is met and then rests.
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
