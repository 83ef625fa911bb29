// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

var racks = []planner.Group{{Name: "r0"}, {Name: "r1"}}

func inRacks(r0, r1 int) map[string]int { return map[string]int{"r0": r0, "r1": r1} }

// TestMove follows a move from two racks to one through the counts that Nomad reports.
func TestMove(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	growFirst := planner.Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Gain: 0.25, Until: begun.Add(time.Minute)}
	shrinkFirst := growFirst
	shrinkFirst.GrowFirst = false
	queued := growFirst
	queued.Queued = true
	for name, tc := range map[string]struct {
		move     planner.Moving
		counts   []map[string]int // one after the other
		after    time.Duration
		underway bool
		made     bool
	}{
		"its new workers are there":         {growFirst, []map[string]int{inRacks(4, 2)}, 0, true, false},
		"which takes its time":              {growFirst, []map[string]int{inRacks(4, 2)}, time.Hour, true, false},
		"its old workers are gone":          {shrinkFirst, []map[string]int{inRacks(2, 0)}, 0, true, false},
		"and it gets no others":             {shrinkFirst, []map[string]int{inRacks(2, 0)}, time.Minute, false, false},
		"it waits for others":               {queued, []map[string]int{inRacks(2, 2)}, 0, true, false},
		"in vain":                           {queued, []map[string]int{inRacks(2, 2)}, time.Minute, false, false},
		"it is made":                        {growFirst, []map[string]int{inRacks(4, 2), inRacks(4, 0)}, 0, false, true},
		"it is undone":                      {growFirst, []map[string]int{inRacks(4, 2), inRacks(2, 2)}, 0, false, false},
		"someone else changes a count":      {growFirst, []map[string]int{inRacks(3, 2)}, 0, false, false},
		"someone removes a group":           {growFirst, []map[string]int{{"r0": 2}}, 0, false, false},
		"which it has left":                 {growFirst, []map[string]int{{"r0": 4}}, 0, false, true},
		"someone resizes it after the move": {growFirst, []map[string]int{inRacks(4, 0), inRacks(3, 0)}, 0, false, false},
		"nothing is heard of it":            {growFirst, []map[string]int{inRacks(4, 0), inRacks(4, 0)}, 2 * time.Hour, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Job{Created: 1}
			j.BeginMove(&tc.move, racks, begun)
			must.Eq(t, &tc.move, j.Moving(racks))
			h := New()
			key := identity.JobKey{Namespace: "default", ID: "a"}
			h.Jobs[key] = j
			now := begun
			for i, counts := range tc.counts {
				if i == len(tc.counts)-1 {
					now = now.Add(tc.after)
				}
				h.Observe(key, &Observation{Created: 1, Counts: counts}, now, 0)
			}
			must.Eq(t, tc.underway, j.Moving(racks) != nil)
			must.Eq(t, tc.made, j.Move != nil && !j.Move.Made.IsZero())
		})
	}
}

// TestMove_OfAWriteThatTimedOut: Nomad may carry out the write after the next views are
// made.
func TestMove_OfAWriteThatTimedOut(t *testing.T) {
	type seen struct {
		counts map[string]int
		after  time.Duration
	}
	begun := time.Unix(1_800_000_000, 0)
	three := append(slices.Clone(racks), planner.Group{Name: "r2"})
	for name, tc := range map[string]struct {
		seen []seen
		kept bool
	}{
		"nothing is seen of it yet":     {[]seen{{inRacks(2, 2), 0}, {inRacks(2, 2), 29 * time.Second}}, true},
		"it is done late":               {[]seen{{inRacks(2, 2), 0}, {map[string]int{"r0": 3, "r1": 2, "r2": 1}, 29 * time.Second}}, true},
		"one of its groups was written": {[]seen{{map[string]int{"r0": 3, "r1": 2}, 0}, {map[string]int{"r0": 3, "r1": 2, "r2": 1}, 1}}, true},
		"it is not done":                {[]seen{{inRacks(2, 2), 0}, {inRacks(2, 2), 30 * time.Second}}, false},
		"the clock goes back":           {[]seen{{inRacks(2, 2), 0}, {inRacks(2, 2), -time.Hour}, {inRacks(2, 2), 30*time.Second - time.Hour}}, false},
		"someone else's is":             {[]seen{{inRacks(2, 2), 0}, {inRacks(2, 1), 1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Job{Created: 1}
			j.BeginMove(&planner.Moving{From: []int{2, 2, 0}, To: []int{3, 0, 1}, GrowFirst: true, Until: begun.Add(time.Minute)}, three, begun)
			for _, s := range tc.seen {
				j.observe(&Observation{Counts: s.counts}, begun.Add(s.after), 0)
			}
			must.Eq(t, tc.kept, j.Move != nil)
		})
	}
}

// TestMove_OfAJobThatNoOneScales: a move stays half done if its job is no longer scaled.
func TestMove_OfAJobThatNoOneScales(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		seen  Observation
		after time.Duration
		kept  bool
	}{
		"it trains":      {Observation{Batch: true}, time.Hour, true},
		"it is held":     {Observation{Batch: true}, 2 * time.Hour, false},
		"it is stopped":  {Observation{Stopped: true}, 0, false},
		"it is complete": {Observation{Batch: true, Completed: 5}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Job{Created: 1}
			j.BeginMove(&planner.Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Until: begun.Add(time.Minute)}, racks, begun)
			tc.seen.Counts = inRacks(4, 2)
			j.observe(&tc.seen, begun.Add(tc.after), 0)
			must.Eq(t, tc.kept, j.Move != nil)
		})
	}
}

// TestBoundMove: a move that a leader with a fast clock began lasts no longer than any
// other, however often it is bounded.
func TestBoundMove(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	j := &Job{LastChange: now.Add(time.Hour)}
	j.BeginMove(&planner.Moving{From: []int{2, 2}, To: []int{4, 0}, Until: now.Add(time.Hour)}, racks, now)
	for range 3 {
		j.BoundMove(now, time.Minute)
		j.observe(&Observation{Counts: inRacks(2, 0)}, now, 0)
		must.NotNil(t, j.Move)
		must.Eq(t, time.Unix(1_800_000_060, 0), j.Move.Until)
		now = now.Add(15 * time.Second)
	}
	must.Eq(t, time.Unix(1_800_000_000, 0), j.LastChange, must.Sprint("it was not changed later than now"))
	j.observe(&Observation{Counts: inRacks(2, 0)}, now.Add(15*time.Second), 0)
	must.Nil(t, j.Move)

	j.Move = &Move{To: inRacks(4, 0), Made: now.Add(24 * time.Hour)}
	j.BoundMove(now, time.Minute)
	must.Eq(t, now, j.Move.Made)
	(&Job{}).BoundMove(now, time.Minute)
}

// TestMove_OfOtherGroups is about a job that was registered again with other groups.
func TestMove_OfOtherGroups(t *testing.T) {
	j := &Job{}
	j.BeginMove(&planner.Moving{From: []int{2, 2}, To: []int{4, 0}}, racks, time.Now())
	must.Nil(t, j.Moving([]planner.Group{{Name: "r0"}, {Name: "r2"}}))
	must.Nil(t, j.Moving([]planner.Group{{Name: "r0"}}))
	j = &Job{}
	j.BeginMove(&planner.Moving{From: []int{2}, To: []int{4}}, racks, time.Now())
	must.Nil(t, j.Move)
}

// TestMove_IsSaved: the next leader ends a move that the last one began.
func TestMove_IsSaved(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	before := &Job{}
	before.BeginMove(&planner.Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Until: now}, racks, now)
	text, err := json.Marshal(before)
	must.NoError(t, err)
	after := &Job{}
	must.NoError(t, json.Unmarshal(text, after))
	must.Eq(t, before.Moving(racks), after.Moving(racks))
	must.Eq(t, before.Moves, after.Moves)
}

// TestMove_IsSavedWithoutEmptyGroups: a job with 256 groups may move between two of them.
func TestMove_IsSavedWithoutEmptyGroups(t *testing.T) {
	groups := append(slices.Clone(racks), planner.Group{Name: "r2"})
	j, m := &Job{}, &planner.Moving{From: []int{2, 2, 0}, To: []int{4, 0, 0}}
	j.BeginMove(m, groups, time.Now())
	must.Eq(t, map[string]int{"r0": 2, "r1": 2}, j.Move.From)
	must.Eq(t, map[string]int{"r0": 4}, j.Move.To)
	must.Eq(t, m.From, j.Moving(groups).From)
	must.Eq(t, m.To, j.Moving(groups).To)

	t.Log("as it was saved before")
	old := &Job{}
	must.NoError(t, json.Unmarshal([]byte(`{"move":{"from":{"r0":2,"r1":2,"r2":0},"to":{"r0":4,"r1":0,"r2":0},"until":"2027-01-15T08:00:00Z"}}`), old))
	must.Eq(t, m.To, old.Moving(groups).To)
	old.followMove(map[string]int{"r0": 4, "r1": 0, "r2": 0}, time.Unix(1_800_000_000, 0))
	must.False(t, old.Move.Made.IsZero())
}

// TestMove_Outcome takes 0.5 s a step before and 0.4 s after.
func TestMove_Outcome(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	j := &Job{Measurements: []Measurement{{Point: speedup.Point{Size: 4, StepTime: 0.5}}}}
	j.BeginMove(&planner.Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Gain: 0.25, Until: now.Add(time.Minute)}, racks, now)
	report := func(n int, mean float64) *Progress {
		return &Progress{Size: 4, StepSeconds: map[string]StepTime{"4": {N: n, Mean: mean}}}
	}
	_, ok := j.MoveOutcome(report(100, 0.5), 1)
	must.False(t, ok, must.Sprint("it is not made yet"))
	j.followMove(inRacks(4, 0), now)
	for _, n := range []int{100, 100 + outcomeSteps - 1} {
		_, ok = j.MoveOutcome(report(n, 0.5), 1)
		must.False(t, ok, must.Sprintf("after %d steps", n))
	}
	j.Gaps = []Gap{{Seconds: f(9)}, {Seconds: f(0.2)}, {Seconds: f(0.1)}}
	o, ok := j.MoveOutcome(report(200, 0.45), 1)
	must.True(t, ok)
	must.Eq(t, 0.5, o.Before)
	must.InDelta(t, 0.4, o.After, 1e-9)
	must.Eq(t, 0.25, o.Expected)
	must.Eq(t, j.Gaps[1:], o.Gaps)
	_, ok = j.MoveOutcome(report(300, 0.45), 1)
	must.False(t, ok, must.Sprint("it is told once"))
}

// TestMove_OutcomeIsOfAllWorkers covers a move that shrinks the job first. Its new workers
// have two slots each, and join long after their counts were written.
func TestMove_OutcomeIsOfAllWorkers(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	j := &Job{}
	j.BeginMove(&planner.Moving{From: []int{1, 1}, To: []int{2, 0}, Until: now.Add(time.Minute)}, racks, now)
	j.followMove(inRacks(2, 0), now)
	report := func(size, two, four int) *Progress {
		return &Progress{Size: size, StepSeconds: map[string]StepTime{"2": {Mean: 9, N: two}, "4": {Mean: 1, N: four}}}
	}
	for _, p := range []*Progress{report(4, 0, 100), report(2, 10, 100), report(2, 99, 100), report(4, 99, 100), report(4, 99, 100+outcomeSteps-1)} {
		_, ok := j.MoveOutcome(p, 2)
		must.False(t, ok)
	}
	o, ok := j.MoveOutcome(report(4, 99, 100+outcomeSteps), 2)
	must.True(t, ok)
	must.Eq(t, 1, o.After)
}

// TestMove_OutcomeOfALie has a training report impossible numbers.
func TestMove_OutcomeOfALie(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for i, steps := range []map[string]StepTime{
		nil, {"4": {N: -5, Mean: 1}}, {"4": {N: 1 << 40, Mean: -1}}, {"4": {N: 1 << 40, Mean: 1e300}}, {"x": {N: 100, Mean: 1}},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			j := &Job{}
			j.BeginMove(&planner.Moving{From: []int{2, 2}, To: []int{4, 0}, Until: now}, racks, now)
			j.followMove(inRacks(4, 0), now)
			j.MoveOutcome(&Progress{Size: 4}, 1)
			_, ok := j.MoveOutcome(&Progress{Size: 4, StepSeconds: steps}, 1)
			must.False(t, ok)
		})
	}
}

// TestMayMove allows two moves within an hour.
func TestMayMove(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	j := &Job{}
	m := &planner.Moving{From: []int{1, 0}, To: []int{0, 1}}
	must.Eq(t, time.Time{}, j.MayMove(2, now))
	j.BeginMove(m, racks, now)
	must.Eq(t, time.Time{}, j.MayMove(2, now))
	j.BeginMove(m, racks, now.Add(time.Minute))
	must.Eq(t, now.Add(time.Hour), j.MayMove(2, now.Add(2*time.Minute)))
	must.Eq(t, time.Time{}, j.MayMove(2, now.Add(time.Hour)))

	t.Log("of a clock that was an hour ahead, and now is not")
	j = &Job{}
	for _, at := range []time.Duration{time.Hour, time.Minute, time.Hour, 0} {
		j.BeginMove(m, racks, now.Add(at))
	}
	must.Eq(t, now.Add(time.Hour), j.MayMove(2, now.Add(2*time.Minute)))
	must.Eq(t, time.Time{}, j.MayMove(3, now.Add(2*time.Minute)))

	j = &Job{}
	waits := *m
	waits.Queued = true
	j.BeginMove(&waits, racks, now)
	j.BeginMove(m, racks, now.Add(time.Second))
	must.Len(t, 1, j.Moves, must.Sprint("one that waited for others is one move"))
	for range 2 * moveLimit {
		j.BeginMove(m, racks, now)
	}
	must.Len(t, moveLimit, j.Moves)
}

// TestBeginMove_Undone is about a move whose write failed.
func TestBeginMove_Undone(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	queued := &planner.Moving{From: []int{2, 2}, To: []int{4, 0}, GrowFirst: true, Queued: true, Until: begun.Add(time.Minute)}
	j := &Job{}
	undo := j.BeginMove(queued, racks, begun)
	must.Len(t, 1, j.Moves)
	undo()
	must.Nil(t, j.Move)
	must.SliceEmpty(t, j.Moves)

	j.BeginMove(queued, racks, begun)
	waits := j.Moving(racks)
	grown := *queued
	grown.Queued = false
	j.BeginMove(&grown, racks, begun)()
	must.Eq(t, waits, j.Moving(racks), must.Sprint("it waits for others as before"))
}
