// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// nomad answers writes the way Nomad does. It refuses stale indexes. It stops the highest
// worker first, which lives on for a while. It places workers anywhere they fit, not where
// the planner assumed.
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
	s.cluster.Packed = map[string]bool{"gpu": rapid.Bool().Draw(t, "pack")}
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
		Key: identity.JobKey{Namespace: "default", ID: fmt.Sprint("j", s.index)}, Pool: "gpu", Index: s.index, Min: min, Max: max,
		Preemptible: rapid.Bool().Draw(s.t, "preemptible"),
		Groups:      []Group{{Name: "workers", Max: max, Need: placement.Need{Slots: 1}, Class: class}},
	}}
	s.jobs = append(s.jobs, j)
}

// see returns the snapshot that the planner gets: the state at this moment.
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

// held counts workers on nodes that take workers, and those yet to be placed.
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

// end removes stopped workers, and all workers on leaving nodes.
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
