// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// twoRacks returns a view of two racks of two nodes of four slots, and of a job with a group
// in each rack and one that spans both.
func twoRacks(t *testing.T, counts ...int) *cluster.View {
	levels, err := topology.ParseLevels([]string{"meta.rack"})
	must.NoError(t, err)
	v := &cluster.View{Topologies: map[string]*cluster.Topology{}}
	var nodes []topology.Node
	for i, name := range []string{"n1", "n2", "n3", "n4"} {
		v.Nodes = append(v.Nodes, planner.Node{Name: name, Pool: "gpu", Bins: []planner.Bin{{Slots: 4}}})
		nodes = append(nodes, topology.Node{Values: []string{[]string{"r1", "r1", "r2", "r2"}[i], name}, Bins: []topology.Bin{{}}})
	}
	v.Topologies["gpu"] = &cluster.Topology{Tree: topology.New(levels, nodes)}
	j := planner.Job{Key: identity.JobKey{Namespace: "default", ID: "a"}, Pool: "gpu", Locality: &planner.Locality{}}
	for g, n := range counts {
		group := planner.Group{Count: n, Need: placement.Need{Slots: 1}, Class: &planner.Class{}}
		for _, node := range [][]int{{0, 1}, {2, 3}, {0, 1, 2, 3}}[g] {
			group.Class.Places = append(group.Class.Places, placement.Place{Node: node})
		}
		if g < 2 {
			group.Path = []int{g}
		}
		for w := range n {
			group.Live = append(group.Live, planner.Worker{Place: group.Class.Places[w%2]})
		}
		j.Groups = append(j.Groups, group)
	}
	v.Jobs = []planner.Job{j}
	return v
}

func rackSpread(n int) migrate.Crossing { return migrate.Crossing{Level: "meta.rack", Domains: n} }
func nodeSpread(n int) migrate.Crossing { return migrate.Crossing{Level: "node", Domains: n} }

func point(size int, at migrate.Crossing, step float64) migrate.Point {
	return migrate.Point{Size: size, Crossing: at, StepTime: step}
}

// Measurements decide where jobs grow and shrink, including jobs that wait to start and jobs
// in pools without moves.
func TestAddMobility_WhereStepsAreFaster(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		edit func(*planner.Job, *cluster.Facts, *history.History)
		want float64
	}{
		"its kind was measured":    {want: 0.8},
		"its pool moves nobody":    {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.History) { j.Pool = "still" }, want: 0.8},
		"it does not matter where": {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.History) { j.Locality = nil }},
		"nothing was measured":     {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.History) { clear(h.Kinds) }},
		"what a namespace shows is for itself": {edit: func(_ *planner.Job, f *cluster.Facts, h *history.History) {
			h.Kinds["other/k"] = h.Kinds["default/k"]
			delete(h.Kinds, "default/k")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := twoRacks(t, 0, 0)
			j := &v.Jobs[0]
			v.Facts = []cluster.Facts{{Spec: &jobspec.Spec{Kind: "k"}}}
			v.Topologies["still"] = v.Topologies["gpu"]
			c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
			c.cfg.Pools["gpu"] = config.Pool{Name: "gpu", Aware: true, MaxMigrations: 6}
			c.cfg.Pools["still"] = config.Pool{Name: "still", Aware: true}
			c.history.Job(j.Key, &v.Facts[0].Observation, now)
			c.history.Kinds["default/k"] = &history.Kind{Placed: []migrate.Point{point(2, migrate.Crossing{}, 1), point(2, rackSpread(2), 0.8)}}
			if tc.edit != nil {
				tc.edit(j, &v.Facts[0], c.history)
			}
			c.addMobility(v, now)
			must.Nil(t, j.Mobility, must.Sprint("no worker runs"))
			if tc.want == 0 {
				must.True(t, j.Locality == nil || j.Locality.Faster == nil)
				return
			}
			must.InDelta(t, tc.want, j.Locality.Faster([]int{1, 1}, []int{2, 0}), 1e-9)
		})
	}
}

// TestAddMobility checks which jobs may be moved, and their Mobility.
func TestAddMobility(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	measured := []history.Measurement{{Point: speedup.Point{Size: 4, StepTime: 0.5, Samples: 100}}}
	for name, tc := range map[string]struct {
		edit           func(*planner.Job, *cluster.Facts, *history.Job)
		stays, blind   bool
		remaining, gap float64
	}{
		"as its training reports": {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) { h.Done, h.Total = 40, 100 }, remaining: 30, gap: 20},
		"as its user wrote": {edit: func(_ *planner.Job, f *cluster.Facts, h *history.Job) {
			f.Spec.TotalWork, h.Total, h.Done = 200, 50, 40
		}, remaining: 80, gap: 20},
		"of unknown length":        {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) { h.RunTime = 123 }, remaining: 123, gap: 20},
		"never measured":           {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) { h.Measurements, h.Total = nil, 100 }, gap: 20},
		"beyond its total":         {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) { h.Done, h.Total = 40, 30 }, gap: 20},
		"years are not counted on": {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) { h.Total = 1e12 }, remaining: horizon, gap: 20},
		"the median of its own gaps": {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) {
			h.Gaps = []history.Gap{{Seconds: new(float64(9))}, {Seconds: new(float64(1))}, {Seconds: new(float64(2))}}
		}, gap: 2},
		"a gap of a day is no gap": {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) {
			h.Gaps = []history.Gap{{Seconds: new(float64(1e5))}}
		}, gap: 20},
		"an unknown gap is not 0": {edit: func(_ *planner.Job, _ *cluster.Facts, h *history.Job) {
			h.Gaps = []history.Gap{{From: 2, To: 4}, {From: 4, To: 2}}
		}, gap: 20},
		"nothing was measured of where": {edit: func(_ *planner.Job, f *cluster.Facts, _ *history.Job) { f.Spec.Kind = "other" }, blind: true, gap: 20},
		"no worker runs":                {edit: func(_ *planner.Job, f *cluster.Facts, _ *history.Job) { f.Running = 0 }, stays: true},
		"it does not matter where":      {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.Job) { j.Locality = nil }, blind: true, gap: 20},
		"its pool moves none":           {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.Job) { j.Pool = "still" }, stays: true},
		"one group":                     {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.Job) { j.Groups = j.Groups[:1] }, stays: true},
		"paused":                        {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.Job) { j.HoldReason = "paused by a user" }, stays: true},
		"set by hand":                   {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.Job) { j.ManualUntil = now.Add(time.Minute) }, stays: true},
		"its pool's nodes are not read": {edit: func(j *planner.Job, _ *cluster.Facts, _ *history.Job) { j.Pool = "other" }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := twoRacks(t, 2, 2)
			j := &v.Jobs[0]
			v.Facts = []cluster.Facts{{Spec: &jobspec.Spec{Kind: "k"}, Observation: history.Observation{Running: 4, Where: history.Where{Workers: 4, Crossing: rackSpread(2)}}}}
			c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
			c.cfg.Pools["gpu"] = config.Pool{Name: "gpu", Aware: true, MaxMigrations: 6}
			c.cfg.Pools["still"] = config.Pool{Name: "still", Aware: true}
			v.Topologies["still"] = v.Topologies["gpu"]
			c.cfg.Planner.ResizeCost = 20 * time.Second
			h := c.history.Job(j.Key, &v.Facts[0].Observation, now)
			h.Measurements = measured
			c.history.Kinds["default/k"] = &history.Kind{Placed: []migrate.Point{point(4, migrate.Crossing{}, 1), point(4, rackSpread(2), 2)}}
			tc.edit(j, &v.Facts[0], h)
			c.addMobility(v, now)
			if tc.stays {
				must.Nil(t, j.Mobility)
				return
			}
			must.Eq(t, tc.remaining, j.Mobility.Remaining)
			must.Eq(t, tc.gap, j.Mobility.Gap)
			if must.Eq(t, tc.blind, j.Mobility.Slowdown == nil); tc.blind {
				return
			}
			must.InDelta(t, 0.5, j.Mobility.Slowdown([]int{4, 0}), 1e-9)
		})
	}
}

// TestJoined checks when the second half of a move may be made.
func TestJoined(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		size, alive int
		asked       time.Duration // after the last change
		changed     time.Duration // ago
		loaded      time.Duration // ago
		progress    time.Duration
		want        bool
	}{
		"all train":            {size: 3, alive: 3, asked: 1, want: true},
		"the new one does not": {size: 2, alive: 3, asked: 1, changed: time.Hour, loaded: time.Hour},
		"it answers no more, and was as large before":   {size: 3, alive: 3, asked: -1, changed: time.Hour, loaded: time.Hour},
		"it was asked while it was changed":             {size: 3, alive: 3, changed: time.Hour, loaded: time.Hour},
		"the new one has no place":                      {size: 3, alive: 2, asked: 1, changed: time.Hour, loaded: time.Hour},
		"a training that reports nothing is given time": {alive: 3, changed: silentJoin - 1, loaded: time.Hour},
		"but no more than that":                         {alive: 3, changed: silentJoin, loaded: time.Hour, want: true},
		"a new leader has asked no one yet":             {alive: 3, changed: time.Hour, loaded: silentJoin - 1},
		"one that asks seldom has not asked for longer": {alive: 3, changed: time.Hour, loaded: time.Minute, progress: time.Minute},
		"but it has after two of its intervals":         {alive: 3, changed: time.Hour, loaded: 2 * time.Minute, progress: time.Minute, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Controller{cfg: config.Default(), loadedAt: now.Add(-tc.loaded)}
			c.cfg.Planner.Progress = tc.progress
			j := &job{Job: &history.Job{Size: tc.size, LastChange: now.Add(-tc.changed)}, askedAt: now.Add(tc.asked - tc.changed)}
			of := planner.Job{Groups: []planner.Group{{Count: 3, Live: make([]planner.Worker, tc.alive)}}}
			must.Eq(t, tc.want, c.joined(j, &of, &cluster.Facts{Spec: &jobspec.Spec{Groups: []jobspec.Group{{}}}}, now))
		})
	}
}

// The previous leader's clock was ahead. A move that it began lasts as long as any other.
func TestFill_AMoveOfAClockAhead(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	v := twoRacks(t, 2, 0)
	j, f := &v.Jobs[0], &cluster.Facts{Spec: &jobspec.Spec{Groups: []jobspec.Group{{}}}}
	j.Groups[0].Name, j.Groups[1].Name = "r0", "r1"
	c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
	h := c.history.Job(j.Key, &f.Observation, now)
	h.Move = &history.Move{From: map[string]int{"r0": 2, "r1": 2}, To: map[string]int{"r0": 4}, Until: now.Add(time.Hour)}
	c.fill(j, f, now)
	c.fill(j, f, now.Add(time.Minute))
	must.Eq(t, now.Add(c.cfg.Planner.MoveTimeout), j.Moving.Until)
}

// If a job's scaling is switched off during a move, the move is forgotten, so that the job keeps
// the counts that its user wants. A job with errors keeps its move.
func TestObserve_AReleasedJobMovesNoMore(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, off := range []bool{true, false} {
		key := identity.JobKey{Namespace: "default", ID: "a"}
		c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
		c.history.Job(key, &history.Observation{}, now).Move = &history.Move{To: map[string]int{"r0": 4}}
		c.observe(&cluster.View{Ineligible: []cluster.IneligibleJob{{Key: key, Off: off}}}, nil, now)
		must.Eq(t, off, c.history.Jobs[key].Move == nil)
	}
}
