// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"math"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/train"
)

func at(t float64, step int) train.Event { return train.Event{Kind: "step", T: 100 + t, Step: step} }

// A repeated step counts once. The time of the repetition is therefore lost time, up to the
// last step that was reached before the failure.
func TestArrivals(t *testing.T) {
	r := train.Record{at(0, 1), at(0.1, 2), at(0.2, 3), at(5, 2), at(5.1, 3), at(5.2, 4), at(5.3, 6)}
	got := arrivals(r, 5)
	must.Len(t, 5, got)
	for i, want := range []float64{0, 0.1, 0.2, 5.2, 5.3} { // step 5 has no record: its rank died
		must.InDelta(t, want, got[i], 1e-9)
	}
	must.EqOp(t, 2, repeatedSteps(r))
}

func TestAccount(t *testing.T) {
	full := []capacity{{0, 4}}
	for name, c := range map[string]struct {
		at     []float64
		events []Happened
		slots  []capacity
		end    float64
		want   map[cause]float64
		share  float64
	}{
		"nothing is lost": {
			at: []float64{0, 0.1, 0.2, 0.3}, slots: full, want: map[cause]float64{undisturbed: 0}, share: 1,
		},
		"slots that were taken away are not held": {
			at: []float64{0, 0.1, 0.3, 0.5}, slots: []capacity{{0, 4}, {0.1, 2}}, events: []Happened{{At: 0.1, Cause: halved}},
			want: map[cause]float64{undisturbed: 0, halved: 0}, share: 1,
		},
		"a kill costs four slots for a second": {
			at: []float64{0, 0.1, 1.2, 1.3}, slots: full, events: []Happened{{At: 0.15, Cause: rankKilled}},
			want: map[cause]float64{undisturbed: 0, rankKilled: 4}, share: 0.4 * 4 / (0.4*4 + 4),
		},
		"what comes before training went on belongs to the first event": {
			at: []float64{0, 0.1, 1.2, 1.3}, slots: full, events: []Happened{{At: 0.15, Cause: rankKilled}, {At: 0.9, Cause: hang}},
			want: map[cause]float64{undisturbed: 0, rankKilled: 4, hang: 0}, share: 0.4 * 4 / (0.4*4 + 4),
		},
		"a run that never goes on loses all that it holds": {
			at: []float64{0, 0.1}, slots: full, events: []Happened{{At: 0.15, Cause: hang}}, end: 10.1,
			want: map[cause]float64{undisturbed: 0, hang: 40}, share: 0.8 / 40.8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := Run{Events: c.events}
			r.account(c.at, c.slots, c.end)
			must.MapLen(t, len(c.want), r.Lost, must.Sprint(r.Lost))
			lost := 0.0
			for why, want := range c.want {
				must.InDelta(t, want, r.Lost[why], 1e-9, must.Sprint(why))
				lost += r.Lost[why]
			}
			must.InDelta(t, c.share, r.Productive(), 1e-9)
			// What is not lost is productive.
			must.InDelta(t, r.Held, lost+float64(r.Steps)*stepWork, 1e-9)
		})
	}
}

// The training has survived an event if two steps follow it, by the times of the steps,
// because earlier steps may be read later. A hang that lasted until the operator's kill
// does not count as survived.
func TestRun_Survived(t *testing.T) {
	r := Run{Events: []Happened{{At: 1, Cause: rankKilled}, {At: 10, Cause: hang}}}
	for step, want := range map[float64]int{0.9: 0, 1.2: 0, 1.4: 1, 10.1: 1, 70.1: 1} {
		got := Run{Events: slices.Clone(r.Events)}
		got.survived(step)
		must.EqOp(t, want, got.Survived(), must.Sprint(step))
	}
	r.survived(20)
	r.survived(80)
	must.EqOp(t, 2, r.Survived(), must.Sprint("training went on after 10 s"))
}

// Lost seconds are sorted, even if they are close together.
func TestRun_Losses(t *testing.T) {
	r := Run{Lost: map[cause]float64{hang: 1.0002, drained: 1.0004, halved: 1.0006, straggler: 2, undisturbed: 1.0006}}
	must.EqOp(t, "a straggler 2.0; half of the slots leave 1.0; none 1.0; a node is drained 1.0; a rank hangs 1.0", r.losses())
}

// Runs with other seeds or lengths are not in the same table.
func TestRunResults_Join(t *testing.T) {
	r := &RunResults{By: map[string]map[string]*Run{}}
	must.NoError(t, r.join(&options{seed: 1, steps: 100}))
	must.EqOp(t, 100, r.Steps)
	r.By["1m0s"] = map[string]*Run{}
	must.NoError(t, r.join(&options{seed: 1, steps: 100}))
	must.EqError(t, r.join(&options{seed: 2, steps: 100}), "-add: the earlier runs have -seed=1 -steps=100")
	must.EqOp(t, 1, r.Seed)
}

// A process that has ended, or that does not exist, gets no signal. That is not an error.
func TestSend(t *testing.T) {
	ended := exec.Command("true")
	must.NoError(t, ended.Run())
	must.NoError(t, send(ended.Process.Pid, syscall.SIGSTOP))
	must.NoError(t, send(0, syscall.Signal(-1)))
}

func TestSchedule(t *testing.T) {
	must.SliceEmpty(t, newSchedule(1, 0, time.Hour))
	for seed := range uint64(50) {
		length := 40 * time.Minute
		schedule := newSchedule(seed, time.Minute, length)
		must.Eq(t, schedule, newSchedule(seed, time.Minute, length))
		seen := map[cause]int{}
		free := time.Duration(0)
		for i, d := range schedule {
			must.GreaterEq(t, free, d.at)
			free = d.at + d.cause.lasts() + between
			must.LessEq(t, length, free)
			seen[d.cause]++
			must.LessEq(t, i/len(deck)+1, seen[d.cause], must.Sprint("before all others came"))
		}
	}
}

// Young's formula, at 20 s for a checkpoint and a day between failures: 31 minutes.
func TestCheckpointEvery(t *testing.T) {
	must.EqOp(t, int(math.Round(math.Sqrt(2*20*86400)/0.1)), checkpointEvery(20, 24*time.Hour))
	must.EqOp(t, 1, checkpointEvery(1e-9, time.Second))
}

// The section of whole runs is placed before all others, replaces its previous version, and
// does not change the others.
func TestPage_WholeRuns(t *testing.T) {
	old := "# Benchmarks\n\nAbout.\n\n## Resizing\n\nTable.\n"
	r := &Results{About: map[string]About{}, Run: &RunResults{Seed: 1, Steps: 100, By: map[string]map[string]*Run{
		"1m0s": {runLaunchers[0].Name: {Steps: 100, Held: 50, Lost: map[cause]float64{hang: 10}}},
	}}}
	first := string(r.page([]byte(old)))
	must.StrContains(t, first, "# Benchmarks\n\nAbout.\n\n"+runBegin+"## Whole runs\n")
	must.StrContains(t, first, "| 80.0 % |")
	must.StrHasSuffix(t, runEnd+"\n## Resizing\n\nTable.\n", first)
	must.EqOp(t, first, string(r.page([]byte(first))))
	must.EqOp(t, first, string((&Results{}).page([]byte(first))), must.Sprint("other parts keep it"))
	must.StrContains(t, string(r.Run.picture()), "</svg>")
}

// The section of sharded models is after the part of the page that make bench keeps, replaces
// itself, and has a ratio of medians.
func TestPage_Sharded(t *testing.T) {
	old := "# Benchmarks\n\n## Resizing\n\nTable.\n" + kept + "\nBy hand.\n"
	r := &Results{About: map[string]About{}, Sharded: []ShardedChange{
		{From: 2, To: 4, MiB: 100, Gap: 0.3, Plain: 0.2, GapProcessor: 0.4, PlainProcessor: 0.1},
		{From: 2, To: 4, MiB: 100, Gap: 0.5, Plain: 0.4, GapProcessor: 0.4, PlainProcessor: 0.1},
		{From: 4, To: 2, MiB: 1000, Gap: 2, Plain: 1, GapProcessor: 3, PlainProcessor: 2},
	}}
	first := string(r.page([]byte(old)))
	must.StrContains(t, first, "| 100 MiB | 2→4 | 0.40 [0.30, 0.50] n=2 | 0.30 [0.20, 0.40] n=2 | 1.3 | 0.40 [0.40, 0.40] n=2 | 0.10 [0.10, 0.10] n=2 |\n")
	must.StrContains(t, first, "| 1000 MiB | 4→2 | 2.00 [2.00, 2.00] n=1 | 1.00 [1.00, 1.00] n=1 | 2.0 |")
	must.StrHasPrefix(t, "# Benchmarks\n\n## Resizing\n\nTable.\n"+kept+"\n"+shardedBegin, first)
	must.StrHasSuffix(t, shardedEnd+"\nBy hand.\n", first)
	must.EqOp(t, first, string(r.page([]byte(first))))
	must.EqOp(t, first, string((&Results{}).page([]byte(first))), must.Sprint("other parts keep it"))
}
