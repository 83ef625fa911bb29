// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// slowBy returns the slowdown of a job whose steps take longer by more for each rack beyond
// the first.
func slowBy(job *Job, more float64) func([]int) float64 {
	time := func(counts []int) float64 {
		t := 1 - more
		for _, n := range counts {
			if n > 0 {
				t += more
			}
		}
		return t
	}
	now := time(job.counts())
	return func(counts []int) float64 { return time(counts) / now }
}

// movable makes a job one that has an hour to go and loses a second with each change of its
// ring.
func movable(more float64, edits ...func(*Job)) func(*Job) {
	return func(j *Job) {
		j.LastChange = now.Add(-time.Hour)
		j.Mobility = &Mobility{Remaining: 3600, Gap: 1, Slowdown: slowBy(j, more)}
		for _, edit := range edits {
			edit(j)
		}
	}
}

// moving puts a job halfway through a move.
func moving(m Moving, edits ...func(*Job)) func(*Job) {
	return func(j *Job) {
		j.LastChange, j.Moving = now.Add(-time.Second), &m
		if m.Until.IsZero() {
			m.Until = now.Add(time.Minute)
		}
		for _, edit := range edits {
			edit(j)
		}
	}
}

// twoTypes returns two racks with slots of two types, 8 of the first.
func twoTypes() *Cluster {
	c := nodes(8, 8)
	for i := range c.Nodes {
		c.Nodes[i].Bins = append(c.Nodes[i].Bins, Bin{Type: "other", Slots: 4})
	}
	return c
}

// ofType puts a job on slots of the nth type of its nodes.
func ofType(bin int) func(*Job) {
	return func(j *Job) {
		for g := range j.Groups {
			group := &j.Groups[g]
			group.Class = &Class{Places: []placement.Place{{Node: g, Bin: bin}}}
			for w := range group.Live {
				group.Live[w].Bin = bin
			}
		}
	}
}

func withCPU(cpu int, slots ...int) *Cluster {
	c := nodes(slots...)
	for i := range c.Nodes {
		c.Nodes[i].CPU = cpu
	}
	return c
}

func needsCPU(n int) func(*Job) {
	return func(j *Job) {
		for g := range j.Groups {
			j.Groups[g].Need.CPU = n
		}
	}
}

// gangOf8 makes a job one that starts with 8 workers in one rack.
func gangOf8(j *Job) {
	rackOnly(j)
	j.Min = 8
}

func TestMake_Migrates(t *testing.T) {
	full := func(n int) func(*Job) { return func(j *Job) { j.Max = n } }
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    []int
		drawing string
		reason  string // part of the first action's, or of the first wait's
	}{
		"closer together, new workers first": {
			nodes(4, 4).inRacks("a", movable(0.5), 2, 2), []int{4}, "a 4→6 migrate r0:2→4", "2 workers from r1 to r0: closer together: steps take 33 % less time"},
		"further apart, where that is known to be faster": {
			nodes(4, 4).inRacks("a", movable(-0.2), 4, 0), []int{4}, "a 4→5 migrate r1:0→1", "further apart: steps take 20 % less time"},
		"old workers first where there may be no more": {
			nodes(4, 4).inRacks("a", movable(0.5, full(4)), 2, 2), []int{4}, "a 4→2 migrate r1:2→0", "closer together"},
		"not where neither is a size of its": {
			nodes(4, 4).inRacks("a", movable(0.5, full(4), func(j *Job) { j.Min = 4 }), 2, 2), []int{4}, "", ""},
		"not one that does not care": {nodes(4, 4).inRacks("a", movable(0), 2, 2), []int{4}, "", ""},
		"not one that was never measured": {
			nodes(4, 4).inRacks("a", movable(0, func(j *Job) { j.Mobility.Slowdown = nil }), 2, 2), []int{4}, "", ""},
		"not one of which nothing is known": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.Mobility = nil }), 2, 2), []int{4}, "", ""},
		"not for the last seconds": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.Mobility.Remaining = 10 }), 2, 2), []int{4}, "", ""},
		"not where a change costs more": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.Mobility.Gap = 600 }), 2, 2), []int{4}, "", ""},
		"not in its hold time": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.LastChange = now.Add(-29 * time.Second) }), 2, 2), []int{4}, "", ""},
		"not more often than it may": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.Mobility.After = now.Add(time.Second) }), 2, 2), []int{4}, "", ""},
		"not one that is held": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.HoldReason = "paused by a user" }), 2, 2), []int{4}, "", ""},
		"not one whose count was set by hand": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.ManualUntil = now.Add(time.Second) }), 2, 2), []int{4}, "", ""},
		"not one that is to shrink": {nodes(4, 4).inRacks("a", movable(0.5), 2, 2), []int{3}, "a 4→3 shrink r0:2→1", ""},
		"into the room that others leave": {
			nodes(4, 8).inRacks("a", movable(0.5), 2, 2).inRacks("b", nil, 0, 0), []int{4, 1}, "b 0→1 start r0:0→1, a 4→6 migrate r1:2→4", ""},
		"not while others wait for room that is coming": {
			nodes(4, 8).inRacks("a", movable(0.5), 2, 2).inRacks("b", func(j *Job) {
				j.Groups[1].Live = []Worker{{Place: placement.Place{Node: 1}, Ending: true}}
			}, 1, 0), []int{4, 2}, "", "still ending"},
		"not while another moves": {
			nodes(8, 8).inRacks("a", movable(0.5), 2, 2).inRacks("b", moving(Moving{From: []int{0, 1}, To: []int{1, 0}, GrowFirst: true}), 1, 1), []int{4, 1}, "", "do not train yet"},
		"others make room": {
			nodes(4, 4).inRacks("a", movable(0.5), 3, 1).inRacks("b", movable(0, func(j *Job) { j.Mobility.Remaining = 60 }), 1, 2), []int{4, 3},
			"a 4→3 migrate r1:1→0, b 3→4 migrate r1:2→3", ""},
		"but not those of another namespace": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.Key.Namespace = "other" }), 3, 1).inRacks("b", movable(0, func(j *Job) { j.Mobility.Remaining = 60 }), 1, 2), []int{4, 3}, "", ""},

		"room for a gang": {
			nodes(9, 9).inRacks("a", movable(0), 2, 0).inRacks("b", movable(0), 0, 2).inRacks("gang", gangOf8, 0, 0), []int{2, 2, 8},
			"a 2→1 migrate r0:2→1", "makes room for gang within one meta.rack (r0)"},
		"of workers that train where their job may not be smaller": {
			nodes(9, 9).inRacks("a", movable(0, func(j *Job) { j.Min = 2 }), 2, 0).inRacks("b", movable(0), 0, 2).inRacks("gang", gangOf8, 0, 0), []int{2, 2, 8},
			"a 2→3 migrate r1:0→1", "makes room for gang within one meta.rack (r0)"},
		"the fewest workers move": {
			nodes(10, 9).inRacks("a", movable(0), 4, 0).inRacks("b", movable(0), 0, 2).inRacks("gang", gangOf8, 0, 0), []int{4, 2, 8},
			"b 2→1 migrate r1:2→1", "makes room for gang"},
		"not for a gang that would start soon": {
			nodes(9, 9).inRacks("a", movable(0, func(j *Job) { j.Mobility.Remaining = 1 }), 2, 0).inRacks("b", movable(0), 0, 2).inRacks("gang", gangOf8, 0, 0), []int{2, 2, 8},
			"", "needs room for 8 more within one meta.rack"},
		"whatever the jobs of one namespace say": {
			nodes(9, 9).inRacks("a", movable(0), 2, 0).inRacks("b", movable(0), 0, 1).
				inRacks("liar", movable(0, func(j *Job) { j.Key.Namespace, j.Mobility.Remaining = "a liar's", 0.001 }), 0, 1).
				inRacks("third", movable(0, func(j *Job) { j.Key.Namespace = "third" }), 0, 1).inRacks("gang", gangOf8, 0, 0), []int{2, 1, 1, 1, 8},
			"a 2→1 migrate r0:2→1", "makes room for gang"},
		"not those on other devices": {
			twoTypes().inRacks("a", movable(0, ofType(1)), 2, 0).inRacks("b", movable(0, ofType(0)), 1, 1).
				inRacks("gang", func(j *Job) { gangOf8(j); ofType(0)(j) }, 0, 0), []int{2, 2, 8},
			"b 2→1 migrate r0:1→0", "makes room for gang within one meta.rack (r0)"},
		"as many as give it enough CPU": {
			withCPU(32000, 10, 10).inRacks("x", movable(0, needsCPU(1000)), 1, 0).inRacks("y", movable(0, needsCPU(1000)), 1, 0).inRacks("w", needsCPU(3000), 0, 3).
				inRacks("gang", func(j *Job) { gangOf8(j); needsCPU(4000)(j) }, 0, 0), []int{1, 1, 3, 8},
			"x 1→2 migrate r1:0→1, y 1→2 migrate r1:0→1", "makes room for gang"},
		"to a rack where some of a job are on a node that takes none": {
			func() *Cluster {
				c := nodes(8, 8, 4)
				c.Nodes[1].State = Ineligible
				cl := c.class(2)
				return c.inRacks("x", movable(0, func(j *Job) { j.Groups[1].Class = cl }), 1, 7).
					inRacks("gang", func(j *Job) { gangOf8(j); j.Groups[1].Class = cl }, 0, 0)
			}(), []int{8, 8}, "x 8→7 migrate r0:1→0", "makes room for gang"},
		"to where each may, of jobs that may be on other nodes": {
			func() *Cluster {
				c := nodes(8, 1, 1, 0)
				both, one := c.class(1, 3), c.class(1)
				on := func(cl *Class) func(*Job) { return func(j *Job) { j.Groups[1].Class = cl } }
				return c.inRacks("x", movable(0, on(both)), 1, 0, 0).inRacks("y", movable(0, on(one)), 1, 0, 0).
					inRacks("gang", func(j *Job) { gangOf8(j); on(both)(j) }, 0, 0, 0)
			}(), []int{1, 1, 8}, "x 1→2 migrate r1:0→1, y 1→2 migrate r2:0→1", "makes room for gang"},
		"others make room on the nodes that both may use": {
			func() *Cluster {
				c := nodes(4, 4, 0)
				return c.inRacks("a", movable(0.5), 3, 1).inRacks("b", movable(0, func(j *Job) { j.Groups[0].Class, j.Mobility.Remaining = c.class(0, 2), 60 }), 1, 2)
			}(), []int{4, 3}, "a 4→3 migrate r1:1→0, b 3→4 migrate r1:2→3", ""},
		"others, though a group may have no more": {
			func() *Cluster {
				short := func(j *Job) { j.Mobility.Remaining = 60 }
				return nodes(4, 4, 4, 4).inRacks("a", movable(0.5), 3, 1, 0, 0).inRacks("b", movable(0, short), 1, 2, 0, 0).
					inRacks("c", movable(0.5, func(j *Job) { j.Groups[2].Max = 3 }), 0, 0, 3, 1).inRacks("d", movable(0, short), 0, 0, 1, 2)
			}(), []int{4, 3, 4, 3}, "a 4→3 migrate r1:1→0, b 3→4 migrate r1:2→3, c 4→1 migrate r2:3→0, d 3→1 migrate r3:2→0", ""},
		"not where it would still lack CPU": {
			withCPU(100, 10, 10).inRacks("a", movable(0), 4, 0).inRacks("gang", func(j *Job) { gangOf8(j); needsCPU(14)(j) }, 0, 0), []int{4, 8},
			"", "needs room for 8 more within one meta.rack"},
		"not where there is no CPU for those that move": {
			func() *Cluster {
				c := withCPU(100, 10, 9).inRacks("a", movable(0, needsCPU(1)), 2, 0).inRacks("b", movable(0, needsCPU(1)), 2, 0).inRacks("x", nil, 0, 2).inRacks("gang", gangOf8, 0, 0)
				c.Nodes[1].CPU = 1
				return c
			}(), []int{2, 2, 2, 8}, "", "needs room for 8 more"},
		"not where it must not grow yet": {
			nodes(16, 4).inRacks("a", movable(0), 9, 0).inRacks("gang", func(j *Job) { gangOf8(j); j.Groups[0].GrowAfter = now.Add(time.Minute) }, 0, 0), []int{9, 8},
			"", "needs room for 8 more"},
		"not into a group that must not grow yet": {
			nodes(4, 4).inRacks("a", movable(0.5, func(j *Job) { j.Groups[0].GrowAfter = now.Add(time.Minute) }), 2, 2).inRacks("b", movable(0.5, func(j *Job) { j.Groups[0].GrowAfter = now.Add(time.Minute) }), 2, 2), []int{4, 4}, "", ""},
		"not on the devices of others": {
			func() *Cluster {
				c := nodes(2, 2).inRacks("a", movable(0, func(j *Job) { j.Max = 2 }), 2, 0) // has the first type
				for i := range c.Nodes {
					c.Nodes[i].Bins = append(c.Nodes[i].Bins, Bin{Type: "other", Slots: 1})
				}
				return c.inRacks("b", movable(0.5, ofType(1)), 1, 1)
			}(), []int{2, 2}, "", ""},
		"no worker of a job that must not cross": {
			nodes(9, 9).inRacks("a", movable(0, rackOnly), 2, 0).inRacks("b", movable(0, rackOnly), 0, 2).inRacks("gang", gangOf8, 0, 0), []int{2, 2, 8},
			"", "needs room for 8 more within one meta.rack"},

		"halfway: the new workers do not train yet": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true}), 4, 2), []int{4}, "",
			"moves 2 workers from r1 to r0: the new ones do not train yet"},
		"halfway: they do": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Joined: true}), 4, 2), []int{4},
			"a 6→4 migrate r1:2→0", "moved 2 workers from r1 to r0"},
		"halfway: they never did": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Until: now}), 4, 2), []int{4},
			"a 6→4 rollback r0:4→2", "do not train in time"},
		"halfway: they found no place": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true}, func(j *Job) {
				j.Groups[0].Live, j.PendingSince, j.LastChange = j.Groups[0].Live[:3], now.Add(-time.Minute), now.Add(-time.Minute)
			}), 4, 2).inRacks("b", nil, 1, 0), []int{4, 1}, "a 6→5 rollback r0:4→3", "found no place"},
		"halfway: the old workers are ending": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}}, func(j *Job) {
				j.Groups[1].Live = []Worker{{Place: placement.Place{Node: 1}, Ending: true}}
			}), 2, 0), []int{4}, "", "the old ones are ending"},
		"halfway: there is room": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}}), 2, 0), []int{4}, "a 2→4 migrate r0:2→4", ""},
		"halfway: which no one else gets": {
			nodes(4, 1).inRacks("b", nil, 0, 0).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}}), 2, 0), []int{2, 4},
			"a 2→4 migrate r0:2→4, b 0→1 start r1:0→1", ""},
		"halfway: there is none": {
			nodes(3, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}}), 2, 0), []int{4}, "", "no room for the new ones yet"},
		"halfway: whatever the policy wants now": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Joined: true}), 4, 2), []int{1},
			"a 6→4 migrate r1:2→0", ""},
		"halfway: but not one that is held": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Joined: true}, func(j *Job) { j.HoldReason = "paused by a user" }), 4, 2), []int{4},
			"", "paused"},
		"halfway: one that is stopped delays no other": {
			nodes(4, 4).inRacks("a", movable(0.5), 2, 2).inRacks("b", moving(Moving{From: []int{1, 0}, To: []int{0, 1}, GrowFirst: true}, func(j *Job) {
				j.HoldReason, j.Stopped = "the job is stopped", true
				j.Groups[0].Live, j.Groups[1].Live = nil, nil
			}), 1, 1), []int{4, 0}, "a 4→6 migrate r0:2→4", ""},
		"halfway: nor one that has completed": {
			nodes(4, 4).inRacks("a", movable(0.5), 2, 2).inRacks("b", moving(Moving{From: []int{1, 0}, To: []int{0, 1}, GrowFirst: true}, func(j *Job) {
				j.Frozen = "a worker completed"
				j.Groups[0].Live, j.Groups[1].Live = nil, nil
			}), 1, 1), []int{4, 0}, "a 4→6 migrate r0:2→4", ""},
		"halfway: a worker is lost, and there may be no fewer": {
			nodes(3, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}}, func(j *Job) {
				j.Min, j.Groups[0].Live = 2, j.Groups[0].Live[:1]
				j.PendingSince, j.LastChange = now.Add(-time.Minute), now.Add(-time.Minute)
			}), 2, 0).inRacks("x", nil, 2, 0), []int{4, 2}, "", "no room for the new ones yet"},
		"no longer halfway: the new ones do not train, and there is no way back": {
			nodes(8, 8).inRacks("x", moving(Moving{From: []int{4, 0}, To: []int{2, 2}, GrowFirst: true, Until: now}, func(j *Job) {
				j.Groups[1].Min, j.LastChange = 1, now.Add(-time.Hour)
			}), 4, 2).inRacks("a", movable(0.5), 1, 1), []int{4, 2}, "x 6→4 shrink r0:4→3 r1:2→1, a 2→3 migrate r0:1→2", ""},
		"no longer halfway: it may no longer be as large": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}}, func(j *Job) { j.Max = 2 }), 2, 0), []int{2}, "", ""},
		"no longer halfway: it may no longer be as small": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Joined: true}, func(j *Job) { j.Min = 6 }), 4, 2), []int{6}, "", ""},
		"no longer halfway: the group that it leaves has a minimum": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Joined: true}, func(j *Job) { j.Groups[1].Min = 2 }), 4, 2), []int{6}, "", ""},
		"no longer halfway: the group that it goes to has a maximum": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}}, func(j *Job) { j.Groups[0].Max = 2 }), 2, 0), []int{2}, "", ""},
		"no longer halfway: it must no longer cross": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{4, 0}, To: []int{2, 2}}, rackOnly), 2, 0), []int{2}, "", ""},
		"no longer halfway: someone else changed a count": {
			nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Joined: true}, func(j *Job) { j.LastChange = now.Add(-time.Hour) }), 3, 2), []int{4},
			"a 5→4 shrink r1:2→1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.cluster.plan(tc.want...)
			must.Eq(t, tc.drawing, p.drawing())
			switch {
			case tc.reason == "":
			case len(p.Actions) > 0:
				must.StrContains(t, p.Actions[0].Reason, tc.reason)
			default:
				must.SliceNotEmpty(t, p.Waits)
				must.StrContains(t, p.Waits[0].Why, tc.reason)
			}
		})
	}
}

// Moves that belong together are written together, or not at all for now.
func TestMake_MovesTogetherWhereWritesAreLimited(t *testing.T) {
	c := nodes(4, 4).inRacks("a", movable(0.5), 3, 1).inRacks("b", movable(0, func(j *Job) { j.Mobility.Remaining = 60 }), 1, 2)
	o := DefaultOptions()
	for o.MaxWrites = 1; o.MaxWrites < 3; o.MaxWrites++ {
		p := Make(c, []Want{{Count: 4}, {Count: 3}}, now, o)
		must.Eq(t, map[int]string{1: "", 2: "a 4→3 migrate r1:1→0, b 3→4 migrate r1:2→3"}[o.MaxWrites], p.drawing())
		must.False(t, p.RequeueAt.After(now), must.Sprint("another plan would be the same"))
	}
}

// If the new workers of a move never trained, the move is not tried again at once.
func TestMake_AMoveThatIsUndoneWaits(t *testing.T) {
	c := nodes(4, 4).inRacks("a", moving(Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Until: now}), 4, 2)
	p := c.plan(4)
	must.Eq(t, "a 6→4 rollback r0:4→2", p.drawing())
	must.Eq(t, []string{"r0"}, p.Actions[0].Unplaced)
}

// TestMake_AMoveInHalves writes both halves.
func TestMake_AMoveInHalves(t *testing.T) {
	c := nodes(4, 4).inRacks("a", movable(0.5), 2, 2)
	p := c.plan(4)
	must.Len(t, 1, p.Actions)
	m := p.Actions[0].Moving
	must.NotNil(t, m)
	must.Eq(t, &Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Until: now.Add(DefaultOptions().MoveTimeout), Gain: m.Gain}, m)
	must.InDelta(t, 1-1/1.5, m.Gain, 1e-9)
	c = nodes(4, 4).inRacks("a", moving(*m), 4, 2)
	must.Eq(t, 4, c.Jobs[0].Settled(), must.Sprint("policies see the size that it has without the move"))
	must.Eq(t, "", c.plan(4).drawing())
	c.Jobs[0].Moving.Joined = true
	must.Eq(t, "a 6→4 migrate r1:2→0", c.plan(4).drawing())
}

// racksWorld has racks of one node, and jobs with a group in each. Nomad places and ends
// their workers between two plans.
type racksWorld struct {
	*Cluster
	slow     []float64
	now      time.Time
	promised map[string]bool // gangs for which others made room
}

func drawRacksWorld(t *rapid.T) (*racksWorld, []Want) {
	slots := rapid.SliceOfN(rapid.IntRange(1, 8), 2, 5).Draw(t, "slots")
	w := &racksWorld{Cluster: nodes(slots...), now: now, promised: map[string]bool{}}
	free := [][]int{slices.Clone(slots)} // by type and rack
	if rapid.Bool().Draw(t, "two types") {
		free = append(free, slices.Clone(slots))
	}
	cpu := rapid.SampledFrom([]int{0, 0, 6, 10}).Draw(t, "CPU")
	for r := range w.Nodes {
		w.Nodes[r].CPU = cpu
		if len(free) > 1 {
			w.Nodes[r].Bins = append(w.Nodes[r].Bins, Bin{Type: "other", Slots: slots[r]})
		}
	}
	var wants []Want
	for i := range rapid.IntRange(1, 5).Draw(t, "jobs") {
		counts := make([]int, len(slots))
		n, kind, each := 0, rapid.IntRange(0, len(free)-1).Draw(t, "type"), 0
		if cpu > 0 {
			each = rapid.IntRange(0, 2).Draw(t, "CPU of a worker")
		}
		for r := range counts {
			most := min(3, free[kind][r])
			if each > 0 {
				most = min(most, w.Nodes[r].CPU/each)
			}
			counts[r] = rapid.IntRange(0, most).Draw(t, "workers")
			free[kind][r] -= counts[r]
			w.Nodes[r].CPU -= each * counts[r]
			n += counts[r]
		}
		w.inRacks(fmt.Sprint("j", i), func(j *Job) {
			ofType(kind)(j)
			needsCPU(each)(j)
			j.LastChange = now.Add(-time.Hour)
			switch rapid.IntRange(0, 3).Draw(t, "locality") {
			case 0:
				j.Locality = nil
			case 1:
				if n == 0 {
					rackOnly(j)
				}
			}
			j.Min = rapid.IntRange(1, max(1, n)).Draw(t, "min")
			if n == 0 {
				j.Min = rapid.IntRange(1, 8).Draw(t, "gang")
			}
			if rapid.Bool().Draw(t, "at its maximum") {
				j.Max = max(1, n, j.Min)
			}
			if rapid.IntRange(0, 3).Draw(t, "of few sizes") == 0 {
				j.Sizes = sizes.List(1, 2, 4, 8, max(1, n))
			}
		}, counts...)
		w.slow = append(w.slow, rapid.SampledFrom([]float64{0, 0.1, 0.5, 2}).Draw(t, "slower by rack"))
		if n == 0 {
			n = w.Jobs[i].Min
		}
		wants = append(wants, Want{Count: n})
	}
	for r := range w.Nodes {
		w.Nodes[r].CPU = cpu
	}
	return w, wants
}

// see fills in the fields of jobs that describe the past.
func (w *racksWorld) see() {
	for j := range w.Jobs {
		job := &w.Jobs[j]
		job.Mobility = &Mobility{Remaining: 3600, Gap: 1, Slowdown: slowBy(job, w.slow[j])}
	}
}

// happen writes an action, and lets Nomad carry it out.
func (w *racksWorld) happen(t *rapid.T, a Action) {
	job := &w.Jobs[slices.IndexFunc(w.Jobs, func(j Job) bool { return j.Key == a.Job })]
	for _, s := range a.Steps {
		g := slices.IndexFunc(job.Groups, func(g Group) bool { return g.Name == s.Group })
		must.Eq(t, job.Groups[g].Count, s.From)
		group := &job.Groups[g]
		group.Count = s.To
		group.Live = group.Live[:min(len(group.Live), s.To)]
		for len(group.Live) < s.To {
			group.Live = append(group.Live, Worker{Place: group.Class.Places[0]})
		}
	}
	job.Started = true
	job.LastChange = w.now
	switch {
	case a.Moving != nil:
		m := *a.Moving
		m.Joined = true
		job.Moving = &m
		if _, gang, ok := strings.Cut(a.Reason, "makes room for "); ok {
			gang, _, _ = strings.Cut(gang, " within")
			w.promised[gang] = true
		}
	case job.Moving != nil && !job.Moving.Underway(job.counts()):
		job.Moving = nil
	}
}

// TestProperty_MigrationsEndAndKeepThePromises makes all planned moves on racks that
// nothing else changes. The moves end, and none gains less than it costs. No rack ever has
// more workers than slots. No job has a forbidden size or crosses a forbidden level, and
// each ends at its size. A gang has started if others made room for it.
func TestProperty_MigrationsEndAndKeepThePromises(t *testing.T) {
	const tick = 5 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		w, wants := drawRacksWorld(t)
		for round, quiet := 0, time.Duration(0); quiet <= DefaultOptions().MoveTimeout; round++ {
			if round > 1000 {
				t.Fatal("the moves do not end")
			}
			w.see()
			p := Make(w.Cluster, wants, w.now, DefaultOptions())
			w.now = w.now.Add(tick)
			quiet += tick
			for _, a := range p.Actions {
				w.check(t, a)
				w.happen(t, a)
				quiet = 0
			}
			w.fits(t)
			w.forget()
		}
		for j := range w.Jobs {
			n := w.Jobs[j].Count()
			if n != wants[j].Count && w.Jobs[j].Started {
				t.Fatalf("%s ends with %d workers, and is to have %d", w.Jobs[j].Key, n, wants[j].Count)
			}
			if n == 0 && w.promised[w.Jobs[j].Key.String()] {
				t.Fatalf("others made room for %s, and it has not started", w.Jobs[j].Key)
			}
		}
	})
}

// forget drops moves that made no progress in time.
func (w *racksWorld) forget() {
	for j := range w.Jobs {
		if m := w.Jobs[j].Moving; m != nil && (!m.GrowFirst || m.Queued) && !m.Until.After(w.now) {
			w.Jobs[j].Moving = nil
		}
	}
}

func (w *racksWorld) check(t *rapid.T, a Action) {
	job := &w.Jobs[slices.IndexFunc(w.Jobs, func(j Job) bool { return j.Key == a.Job })]
	if a.To != 0 && (a.To < job.Min || a.To > job.Max || job.Sizes.Fit(a.To, job.Min, job.Max) != a.To) {
		t.Fatalf("%+v is of a size that the job must not have", a)
	}
	m := a.Moving
	if m == nil {
		return
	}
	at := map[int]bool{}
	for g := range m.From {
		if m.From[g] > 0 || m.To[g] > 0 {
			at[g] = true
		}
	}
	if job.Locality != nil && job.Locality.Within > 0 && len(at) > 1 {
		t.Fatalf("%+v takes it to racks %v, and it must be in one", a, slices.Collect(maps.Keys(at)))
	}
	sum := func(counts []int) (n int) {
		for _, k := range counts {
			n += k
		}
		return n
	}
	if sum(m.From) != sum(m.To) {
		t.Fatalf("%+v changes the size of the job", m)
	}
	workers := 0
	for g := range m.To {
		workers += max(0, m.To[g]-m.From[g])
	}
	o := migrate.DefaultOptions()
	if cost, gain := 2*float64(sum(m.From))+float64(workers)*o.Overlap, 3600*float64(sum(m.From))*m.Gain; m.Gain > 0 && gain <= cost {
		t.Fatalf("%+v gains %.0f and costs %.0f", a, gain, cost)
	}
}

func (w *racksWorld) fits(t *rapid.T) {
	for r := range w.Nodes {
		slots, cpu := make([]int, len(w.Nodes[r].Bins)), 0
		for j := range w.Jobs {
			for _, at := range w.Jobs[j].Groups[r].Live {
				slots[at.Bin]++
				cpu += w.Jobs[j].Groups[r].Need.CPU
			}
		}
		for b, n := range slots {
			if have := w.Nodes[r].Bins[b].Slots; n > have {
				t.Fatalf("rack %d has %d slots of type %d and %d workers", r, have, b, n)
			}
		}
		if cpu > w.Nodes[r].CPU {
			t.Fatalf("rack %d has CPU %d, and its workers %d", r, w.Nodes[r].CPU, cpu)
		}
	}
}
