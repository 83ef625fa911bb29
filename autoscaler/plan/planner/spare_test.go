// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// spare lets a job have a spare, if it has none, or lets the last of its workers be one.
func spare(held int) func(*Job) {
	return func(j *Job) {
		j.Spare = 1
		c := &Cluster{Jobs: []Job{*j}}
		c.SeparateSpares(0, map[string]int{"workers": held})
		*j = c.Jobs[0]
	}
}

// described returns a plan with the counts that are written and the spares among them.
func (p Plan) described() string {
	var parts []string
	for _, a := range p.Actions {
		words := []string{a.Job.ID, string(a.Cause)}
		for _, s := range a.Steps {
			words = append(words, s.Group, steps(s.From, s.To))
			if a.Spares != nil {
				words = append(words, "of which", steps(a.Spares[s.Group], a.Spares[s.Group]))
			}
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, ", ")
}

func steps(from, to int) string {
	if from == to {
		return string(rune('0' + to))
	}
	return string(rune('0'+from)) + "→" + string(rune('0'+to))
}

func TestMake_Spares(t *testing.T) {
	paused := func(j *Job) { spare(1)(j); j.HoldReason = "paused by a user" }
	later := func(j *Job) { spare(0)(j); j.SpareGiven = now.Add(-time.Minute) }
	young := func(j *Job) { spare(0)(j); j.LastChange = now.Add(-time.Second) }
	justGrown := func(j *Job) { spare(1)(j); j.LastChange = now.Add(-time.Second) }
	orphan := func(j *Job) { spare(1)(j); j.Frozen = "a worker has completed" }
	only := func(nodes *Class) func(*Job) { return func(j *Job) { j.Groups[0].Class = nodes } }
	unplaced := func(j *Job) {
		j.Groups[0].Count++
		spare(1)(j)
		j.SparesSince = now.Add(-time.Hour)
	}
	for name, c := range map[string]struct {
		cluster *Cluster
		wants   []int
		want    string
	}{
		"added where there is room":             {nodes(2, 2).with("a", spare(0), 0, 1), []int{2}, "a spare workers 2→3 of which 1"},
		"not without room":                      {nodes(1, 1).with("a", spare(0), 0, 1), []int{2}, ""},
		"not for a job that never asked":        {nodes(2, 2).with("a", nil, 0, 1), []int{2}, ""},
		"not for a job without workers":         {nodes(2, 2).with("a", spare(0)), []int{0}, ""},
		"not just after a change":               {nodes(2, 2).with("a", young, 0, 1), []int{2}, ""},
		"not before its time":                   {nodes(2, 2).with("a", later, 0, 1), []int{2}, ""},
		"not while another job wants to grow":   {nodes(2, 2).with("a", spare(0), 0).with("b", func(j *Job) { j.LastChange = now }, 1), []int{1, 2}, ""},
		"kept":                                  {nodes(2, 2).with("a", spare(1), 0, 1, 0), []int{2}, ""},
		"kept while others find room":           {nodes(2, 2).with("a", spare(1), 0, 1, 0).with("b", nil), []int{2, 1}, "b start workers 0→1"},
		"given back to a job that waits":        {nodes(2, 2).with("a", spare(1), 0, 1, 0, 1).with("b", nil), []int{3, 1}, "a spare workers 4→3 of which 0"},
		"given back just after a change":        {nodes(2, 1).with("a", justGrown, 0, 1, 0).with("b", nil), []int{2, 1}, "a spare workers 3→2 of which 0"},
		"given back to a job that grows":        {nodes(2, 2).with("a", spare(1), 0, 1, 0).with("b", nil, 1), []int{2, 2}, "a spare workers 3→2 of which 0"},
		"given back with a worker":              {nodes(2, 2).with("a", spare(1), 0, 1, 0, 1).with("b", nil), []int{2, 2}, "a shrink workers 4→2 of which 0"},
		"kept if workers make enough room":      {nodes(2, 2).with("a", spare(1), 0, 1, 0, 1).with("b", nil), []int{2, 1}, "a shrink workers 4→3 of which 1"},
		"kept when the job shrinks":             {nodes(2, 2).with("a", spare(1), 0, 1, 0, 1), []int{2}, "a shrink workers 4→3 of which 1"},
		"kept when the job grows":               {nodes(2, 2).with("a", spare(1), 0, 1, 0), []int{3}, "a grow workers 3→4 of which 1"},
		"trains if the job finds no other room": {nodes(2, 1).with("a", spare(1), 0, 1, 0), []int{3}, "a grow workers 3 of which 0"},
		"trains with a free slot":               {nodes(2, 2).with("a", spare(1), 0, 1, 0), []int{4}, "a grow workers 3→4 of which 0"},
		"gone with the workers":                 {nodes(2, 2).with("a", func(j *Job) { spare(1)(j); j.Preemptible = true }, 0, 1, 0), []int{0}, "a suspend workers 3→0 of which 0"},
		"one is enough": {nodes(2, 2).with("a", spare(1), 0, 1).with("b", spare(1), 0, 1).with("c", nil), []int{1, 1, 1},
			"b spare workers 2→1 of which 0"},
		"of the lower priority first": {nodes(2, 2).with("a", spare(1), 0, 1).with("b", func(j *Job) { spare(1)(j); j.Priority = 70 }, 0, 1).with("c", nil), []int{1, 1, 1},
			"a spare workers 2→1 of which 0"},
		"one resize for all its room": {nodes(4).with("a", spare(1), 0, 0).with("b", nil, 0), []int{1, 3}, "a spare workers 2→1 of which 0"},
		"no wait for room that is of no use": {func() *Cluster {
			c := nodes(3, 1)
			return c.with("a", spare(1), 0, 1).with("b", only(c.class(0)), 0)
		}(), []int{1, 3}, "b grow workers 1→2, a spare workers 2→1 of which 0"},
		"left in a job that has completed": {nodes(1).with("a", orphan, 0).with("b", nil), []int{0, 1}, ""},
		"left in a job that is paused":     {nodes(2, 1).with("a", paused, 0, 1, 0).with("b", nil), []int{2, 1}, ""},
		"no longer wanted":                 {nodes(2, 2).with("a", func(j *Job) { spare(1)(j); j.Spare = 0 }, 0, 1, 0), []int{2}, "a spare workers 3→2 of which 0"},
		"just lost with its node":          {nodes(1, 1).with("a", func(j *Job) { unplaced(j); j.SparesSince = now }, 0, 1), []int{2}, ""},
		"without a place":                  {nodes(1, 1).with("a", unplaced, 0, 1), []int{2}, "a spare workers 3→2 of which 0"},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, c.want, c.cluster.plan(c.wants...).described()) })
	}
}

// Jobs that are not elastic get the slots of spares, too, even if no worker gives way to them.
func TestMake_SparesOfARigidJob(t *testing.T) {
	c := nodes(2, 2).with("a", spare(1), 0, 1, 0, 1)
	c.Reserved = map[string]int{"gpu": 1}
	must.Eq(t, "a spare workers 4→3 of which 0", c.plan(3).described())
	c.Reserved, c.Waiting = nil, c.Reserved
	must.Eq(t, "a spare workers 4→3 of which 0", c.plan(3).described())
}

// A job waits for the room of a spare that ends, but not for a process that does not end. Then it
// gets the room of another spare.
func TestMake_SpareThatDoesNotEnd(t *testing.T) {
	ending := func(given time.Duration) func(*Job) {
		return func(j *Job) {
			j.Spare, j.SpareGiven = 1, now.Add(-given)
			j.Groups[0].Count, j.Groups[0].Live[1].Ending = 1, true
		}
	}
	for name, c := range map[string]struct {
		given time.Duration
		want  string
	}{
		"just given back": {time.Second, ""},
		"an hour ago":     {time.Hour, "b grow workers 1→2, c spare workers 2→1 of which 0"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := nodes(5, 1)
			cl.with("a", ending(c.given), 0, 0).with("b", func(j *Job) { j.Groups[0].Class = cl.class(0) }, 0).with("c", spare(1), 0, 1)
			must.Eq(t, c.want, cl.plan(1, 3, 1).described())
		})
	}
}

// lent lets the pool lend a job a spare.
func lent(held int) func(*Job) {
	return func(j *Job) { spare(held)(j); j.Lent = true }
}

func TestMake_LentSpares(t *testing.T) {
	high := func(held int) func(*Job) { return func(j *Job) { lent(held)(j); j.Priority = 70 } }
	large := func(j *Job) { lent(0)(j); j.Groups[0].Need.Slots = 2 }
	for name, c := range map[string]struct {
		cluster *Cluster
		lends   int
		want    string
	}{
		"to the first":           {nodes(4).with("a", lent(0), 0).with("b", lent(0), 0), 1, "a spare workers 1→2 of which 1"},
		"to both":                {nodes(4).with("a", lent(0), 0).with("b", lent(0), 0), 2, "a spare workers 1→2 of which 1, b spare workers 1→2 of which 1"},
		"by priority":            {nodes(4).with("a", lent(0), 0).with("b", high(0), 0), 1, "b spare workers 1→2 of which 1"},
		"not taken from one":     {nodes(4).with("a", high(0), 0).with("b", lent(1), 0, 0), 1, ""},
		"next to its own":        {nodes(4).with("a", spare(1), 0, 0).with("b", lent(0), 0), 1, "b spare workers 1→2 of which 1"},
		"not for a part":         {nodes(8).with("a", large, 0), 1, ""},
		"for a whole worker":     {nodes(8).with("a", large, 0), 2, "a spare workers 1→2 of which 1"},
		"fewer":                  {nodes(4).with("a", lent(1), 0, 0).with("b", lent(1), 0, 0), 1, "b spare workers 2→1 of which 0"},
		"none any longer":        {nodes(4).with("a", lent(1), 0, 0).with("b", lent(1), 0, 0), 0, "a spare workers 2→1 of which 0, b spare workers 2→1 of which 0"},
		"not just after another": {nodes(4).with("a", func(j *Job) { lent(0)(j); j.SpareGiven = now.Add(-time.Minute) }, 0).with("b", lent(0), 0), 1, ""},
		"to the next with room": {func() *Cluster {
			c := nodes(1, 2)
			return c.with("a", func(j *Job) { lent(0)(j); j.Groups[0].Class = c.class(0) }, 0).with("b", lent(0), 1)
		}(), 1, "b spare workers 1→2 of which 1"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cluster.Lends = map[string]int{"gpu": c.lends}
			wants := make([]int, len(c.cluster.Jobs))
			for i := range wants {
				wants[i] = 1
			}
			must.Eq(t, c.want, c.cluster.plan(wants...).described())
		})
	}
}

// Spares make room for a gang by the slots that it lacks, also if its first group holds none.
func TestMake_SparesOfAGang(t *testing.T) {
	c := nodes(5).with("a", spare(1), 0, 0)
	c.Jobs = append(c.Jobs, gangJob(c.class(), 0, 0))
	c.Jobs[1].Key.ID = "gang"
	withoutSlots(c, &c.Jobs[1], 10)
	must.Eq(t, "a spare workers 2→1 of which 0", c.plan(1, 5).described())
	c.Nodes[0].Bins[0].Slots = 6
	must.Eq(t, "gang start ps 0→1 w 0→4", c.plan(1, 5).described(), must.Sprint("there is room"))
}

func TestSeparateSpares(t *testing.T) {
	for name, c := range map[string]struct {
		count, spares, live, ending int
		want                        [4]int // count, spares, live and spares that are placed
	}{
		"all placed":               {4, 1, 4, 0, [4]int{3, 1, 3, 1}},
		"the spare is missing":     {4, 1, 3, 0, [4]int{3, 1, 3, 0}},
		"a worker is missing, too": {4, 1, 2, 0, [4]int{3, 1, 2, 0}},
		"given back just now":      {3, 0, 4, 1, [4]int{3, 0, 4, 0}},
		"replaced":                 {4, 1, 5, 1, [4]int{3, 1, 4, 1}},
		"fewer than it had":        {1, 3, 1, 0, [4]int{0, 1, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			cl := nodes(9).with("a", nil, make([]int, c.live)...)
			g := &cl.Jobs[0].Groups[0]
			for i := range c.ending {
				g.Live[len(g.Live)-1-i].Ending = true
			}
			g.Count = c.count
			cl.SeparateSpares(0, map[string]int{"workers": c.spares})
			must.Eq(t, c.want, [4]int{g.Count, g.Spare, len(g.Live), len(g.Spares)})
			must.Eq(t, 8-g.Spare, g.Max)
		})
	}
}

// TestProperty_SparesCostNothing compares plans of random clusters with and without spares.
// Counts with spares never exceed the capacity. No job waits while a spare holds a slot that
// it could have. A plan for jobs that have no spares is the same as without the feature.
func TestProperty_SparesCostNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newNomad(t)
		s.cluster.Packed = nil
		held := map[string]int{} // by job
		for range rapid.IntRange(1, 5).Draw(t, "jobs") {
			s.arrive()
			s.jobs[len(s.jobs)-1].Spare = rapid.IntRange(0, 2).Draw(t, "spare")
			s.jobs[len(s.jobs)-1].Groups[0].Max += 2
		}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			wants := make([]Want, len(s.jobs))
			for i := range wants {
				wants[i].Count = rapid.IntRange(0, 12).Draw(t, "want")
			}
			c := s.see()
			for j := range c.Jobs {
				c.SeparateSpares(j, map[string]int{"workers": held[c.Jobs[j].Key.ID]})
			}
			p := Make(c, wants, s.now, DefaultOptions())
			s.checkSpares(c, &p)
			for _, a := range p.Actions {
				j := c.Jobs[c.job(a.Job.ID)]
				if a.To-a.From > 0 && a.To > j.Max {
					t.Fatalf("above the maximum: %+v", a)
				}
				for _, step := range a.Steps {
					i := c.job(a.Job.ID)
					s.jobs[i].Groups[0].Count = step.To
					if a.Cause != Spare {
						s.jobs[i].LastChange = s.now
					}
					if a.Spares != nil {
						held[a.Job.ID] = a.Spares[step.Group]
					}
					if step.To != a.To+held[a.Job.ID] {
						t.Fatalf("%d written for %d workers and %d spares", step.To, a.To, held[a.Job.ID])
					}
					s.stopHighest(s.jobs[i])
				}
			}
			if n := s.held(); n > s.capacity() {
				t.Fatalf("%d workers exist or may be placed on %d slots", n, s.capacity())
			}
			for s.place() {
			}
			if rapid.Bool().Draw(t, "end") {
				s.end()
			}
			s.tick(time.Minute)
		}
	})
}

// job returns the index of a job.
func (c *Cluster) job(id string) int {
	return slices.IndexFunc(c.Jobs, func(j Job) bool { return j.Key.ID == id })
}

// checkSpares fails if a job lacks room after a plan while the plan leaves a spare where it is.
func (s *nomad) checkSpares(c *Cluster, p *Plan) {
	left, coming := 0, 0
	for j := range c.Jobs {
		job := &c.Jobs[j]
		n := job.HeldSpares()
		for _, a := range p.Actions {
			if a.Job == job.Key && a.Spares != nil {
				n = a.Spares["workers"]
				if a.Cause == Grow {
					coming += max(0, job.HeldSpares()-n) // it grows by a spare, and leaves room to others
				}
			}
			if a.Job == job.Key && len(a.Steps) > 0 {
				coming += max(0, a.Steps[0].From-a.Steps[0].To)
			}
		}
		left += n
		for _, w := range job.Groups[0].Live {
			if w.Ending {
				coming++
			}
		}
	}
	lacking := 0
	for _, w := range p.Waits {
		lacking += w.Shortfall
	}
	if left > 0 && lacking > coming {
		s.t.Fatalf("jobs lack %d slots of which %d are coming, and %d spares stay: %+v", lacking, coming, left, p)
	}
}
