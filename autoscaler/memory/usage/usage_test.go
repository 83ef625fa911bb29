// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package usage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

var (
	midnight = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	train    = identity.JobKey{Namespace: "default", ID: "train"}
)

func at(s float64) time.Time { return midnight.Add(time.Duration(s * float64(time.Second))) }

func running(a ...Alloc) func(func(Alloc) bool) { return slices.Values(a) }

func alloc(id string, slots int, created, ended float64) Alloc {
	a := Alloc{ID: id, Job: train, Slots: slots, Created: at(created)}
	if ended != 0 {
		a.Ended = at(ended)
	}
	return a
}

func job() []Job { return []Job{{Key: train, Pool: "gpu", Queue: "*", Kind: "bert", Since: at(0)}} }

// sum adds up the rows of a ledger.
func sum(l *Ledger) Counts {
	var c Counts
	for _, r := range l.Rows {
		c.Add(&r.Counts)
	}
	return c
}

// consistent checks that the categories of all amounts add up and none is negative.
func consistent(t *testing.T, l *Ledger) {
	t.Helper()
	for _, s := range l.Jobs {
		checkCounts(t, &s.Total)
	}
	for _, r := range l.Rows {
		checkCounts(t, &r.Counts)
	}
}

func checkCounts(t *testing.T, c *Counts) {
	t.Helper()
	for _, part := range []int64{c.Held, c.Productive, c.Starting, c.Resizing, c.Lost, c.Spare, c.Unknown, c.Fresh, c.Idle(), c.Waiting} {
		must.GreaterEq(t, 0, part)
	}
	must.LessEq(t, c.Unknown, c.Fresh)
	must.Eq(t, c.Held, c.Productive+c.Starting+c.Resizing+c.Lost+c.Spare+c.Unknown+c.Idle())
}

func TestLedger_ARunIsDivided(t *testing.T) {
	l := New()
	a, b := alloc("a", 2, 10, 0), alloc("b", 2, 130, 0)
	l.Account(at(30), job(), running(a))
	must.Eq(t, Counts{Held: 40e3, Unknown: 40e3, Fresh: 40e3}, sum(l), must.Sprint("a job that has not reported is unknown"))

	t.Log("it starts for 20 s, and then makes 30 steps of 1 s on 2 slots")
	l.Account(at(60), job(), running(a))
	two := Steps{Size: 2, N: 30, Seconds: 1}
	first := Resize{Time: float64(at(29).Unix()), To: 2, Start: true}
	l.Report(train, &Report{Size: 2, Steps: []Steps{two}, Resizes: []Resize{first}}, at(60))
	must.Eq(t, Counts{Held: 100e3, Productive: 60e3, Starting: 40e3}, sum(l))

	t.Log("it grows to 4 slots: the new ones start for 30 s, and the gap is 1 s")
	l.Account(at(160), job(), running(a, b))
	two.N = 130
	l.Report(train, &Report{Size: 2, Steps: []Steps{two}, Resizes: []Resize{first}}, at(160))
	must.Eq(t, Counts{Held: 360e3, Productive: 260e3, Starting: 100e3}, sum(l), must.Sprint("of the last 30 s, two slots were not in the ring"))
	l.Account(at(171), job(), running(a, b))
	four := Steps{Size: 4, N: 10, Seconds: 1}
	grown := Resize{Time: float64(at(160).Unix()), From: 2, To: 4, Gap: 1}
	l.Report(train, &Report{Size: 4, Steps: []Steps{two, four}, Resizes: []Resize{first, grown}}, at(171))
	must.Eq(t, Counts{Held: 404e3, Productive: 300e3, Starting: 100e3, Resizing: 4e3}, sum(l))

	t.Log("the same report again changes nothing, and time without steps is idle")
	l.Account(at(181), job(), running(a, b))
	l.Report(train, &Report{Size: 4, Steps: []Steps{two, four}, Resizes: []Resize{first, grown}}, at(181))
	got := sum(l)
	must.Eq(t, 40e3, got.Idle())

	t.Log("a step that takes long was not idle")
	four.N, four.Seconds = 11, 20.0/11
	l.Report(train, &Report{Size: 4, Steps: []Steps{two, four}, Resizes: []Resize{first, grown}}, at(181))
	got = sum(l)
	must.Eq(t, 0, got.Idle())

	t.Log("a failure: 2 s without a step, and three steps done again")
	failure := Resize{Time: float64(at(185).Unix()), From: 4, To: 4, Gap: 2, Lost: 3, Failure: true}
	l.Account(at(191), job(), running(a, b))
	four.N, four.Seconds = 19, 28.0/19
	l.Report(train, &Report{Size: 4, Steps: []Steps{two, four}, Resizes: []Resize{first, grown, failure}}, at(191))
	got = sum(l)
	must.Between(t, 8e3+17e3, got.Lost, 8e3+18e3)
	share, known := got.Share()
	must.True(t, known)
	must.Between(t, 0.7, share, 0.8)
	must.Eq(t, got, l.Jobs[train].Total, must.Sprint("the job's total is that of its rows"))
	consistent(t, l)
}

// The time of a spare outside the ring is not idle time.
func TestLedger_Spare(t *testing.T) {
	l := New()
	a, b := alloc("a", 2, 0, 0), alloc("b", 1, 0, 0)
	jobs := job()
	jobs[0].Spares = 1
	report := func(second float64, size, steps int) {
		l.Account(at(second), jobs, running(a, b))
		l.Report(train, &Report{Size: size, Steps: []Steps{{Size: 2, N: steps, Seconds: 1}}, Resizes: []Resize{{Time: float64(at(1).Unix()), To: 2, Start: true}}}, at(second))
	}
	report(10, 2, 8)
	before := sum(l)
	report(20, 2, 18)
	got := sum(l)
	must.Eq(t, []int64{30e3, 20e3, 10e3, 0}, []int64{got.Held - before.Held, got.Productive - before.Productive, got.Spare - before.Spare, got.Idle() - before.Idle()})
	before = got
	report(30, 3, 18)
	got = sum(l)
	must.Eq(t, []int64{0, 30e3}, []int64{got.Spare - before.Spare, got.Idle() - before.Idle()}, must.Sprint("it is in the ring, which hangs"))
	consistent(t, l)
}

func TestLedger_WhatIsNotReportedIsUnknown(t *testing.T) {
	l := New()
	a := alloc("a", 4, 0, 0)
	l.Account(at(100), job(), running(a))
	l.Report(train, &Report{Size: 4}, at(100))
	must.Eq(t, Counts{Held: 400e3, Unknown: 400e3, Fresh: 400e3}, sum(l), must.Sprint("a report without steps divides nothing"))
	c := sum(l)
	_, known := c.Share()
	must.False(t, known)
}

// TestLedger_LateEnds has Nomad report late that allocations ended, as after a node lost its
// connection.
func TestLedger_LateEnds(t *testing.T) {
	l := New()
	l.Account(at(100), job(), running(alloc("a", 2, 0, 0), alloc("b", 1, 0, 0)))
	l.Report(train, &Report{Size: 3, Steps: []Steps{{3, 90, 1}}}, at(100))
	l.Account(at(200), job(), running(alloc("a", 2, 0, 50), alloc("b", 1, 0, 0)))
	got := sum(l)
	must.Eq(t, 2*50e3+200e3, got.Held)
	consistent(t, l)
	l.Account(at(300), job(), running(alloc("a", 2, 0, 50), alloc("b", 1, 0, 250)))
	must.Eq(t, 2*50e3+250e3, sum(l).Held)
}

func TestLedger_WaitsEvictionsFailuresResizes(t *testing.T) {
	l := New()
	j := job()
	j[0].Waiting = true
	l.Account(at(60), j, running())
	must.Eq(t, 60e3, sum(l).Waiting, must.Sprint("from when it was first seen"))
	l.Account(at(90), j, running())
	j[0].Waiting = false
	l.Account(at(100), j, running(alloc("a", 1, 95, 0)))
	must.Eq(t, 90e3, sum(l).Waiting)
	j[0].Resizes = 2
	failed := alloc("a", 1, 95, 110)
	failed.Failed = true
	l.Account(at(120), j, running(failed, alloc("b", 1, 110, 0)))
	j[0].Waiting, j[0].Suspended = true, true
	for _, now := range []float64{200, 260} {
		l.Account(at(now), j, running(failed, alloc("b", 1, 110, 150)))
	}
	got := sum(l)
	must.Eq(t, 90e3+60e3, got.Waiting, must.Sprint("the wait begins when it is seen"))
	must.Eq(t, []int{2, 1, 1}, []int{got.Resizes, got.Failures, got.Evictions})

	t.Log("how it ended is in the row of its last day")
	j[0].Waiting, j[0].Suspended, j[0].End = false, false, Complete
	l.Account(at(300), j, running())
	must.Eq(t, Complete, l.Day(DayOf(midnight))[0].End)
	l.Account(at(300+2*margin.Seconds()), j, running())
	must.MapEmpty(t, l.Jobs)
	must.Eq(t, got, sum(l), must.Sprint("it is forgotten, and its row stays"))
	l.Account(at(310+2*margin.Seconds()), j, running(failed, alloc("b", 1, 110, 150)))
	must.Eq(t, got, sum(l), must.Sprint("Nomad still lists its allocations"))
}

func TestLedger_AnArchivedDayStays(t *testing.T) {
	l := New()
	a := alloc("a", 1, -3600, 0)
	l.Account(at(3600), job(), running(a))
	must.Eq(t, []Day{DayOf(midnight) - 1, DayOf(midnight)}, l.Days())
	l.Close(DayOf(midnight) - 1)
	must.Eq(t, 3600e3, sum(l).Held)
	l.Account(at(4000), job(), running(alloc("a", 1, -3600, -1800)))
	must.Eq(t, 0, sum(l).Held)
	consistent(t, l)
}

// TestLedger_Property runs jobs at random, with reports of any numbers, periods without an
// account, and ends that become known late. The held slots always equal the allocations'
// own times, day by day.
func TestLedger_Property(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 28))
		l, now := New(), 1000.0
		var allocs []Alloc
		for step := range 60 {
			now += 20 * rng.ExpFloat64() * math.Pow(4, float64(rng.IntN(5)))
			if rng.IntN(3) == 0 {
				allocs = append(allocs, alloc(strconv.Itoa(step), 1+rng.IntN(8), now-rng.Float64()*60, 0))
			}
			for i := range allocs {
				a := &allocs[i]
				if a.Ended.IsZero() && rng.IntN(8) == 0 {
					a.Ended, a.Failed = a.Created.Add(time.Duration(rng.Float64()*float64(at(now).Sub(a.Created)))), rng.IntN(2) == 0
				}
			}
			l.Account(at(now), job(), running(allocs...))
			r := &Report{Size: rng.IntN(20)}
			number := func() float64 {
				return []float64{-1, 0, 1, rng.Float64() * 100, 1e300, math.NaN(), math.Inf(1), float64(at(now).Unix()) - rng.Float64()*100}[rng.IntN(8)]
			}
			for range rng.IntN(3) {
				r.Steps = append(r.Steps, Steps{rng.IntN(20) - 1, rng.IntN(1000) - 1, number()})
				r.Resizes = append(r.Resizes, Resize{Time: number(), From: rng.IntN(20) - 1, To: rng.IntN(20) - 1, Gap: number(), Lost: number(), Failure: rng.IntN(2) == 0})
			}
			l.Report(train, r, at(now))
			consistent(t, l)
		}
		l.Account(at(now), job(), running(allocs...))
		want := map[Day]int64{}
		for _, a := range allocs {
			end := at(now)
			if !a.Ended.IsZero() {
				end = a.Ended
			}
			for p := range New().pieces(a.Created.UnixMilli(), end.UnixMilli()) {
				want[dayOf(p.from)] += (p.to - p.from) * int64(a.Slots)
			}
		}
		for day, ms := range want {
			var held int64
			for _, r := range l.Day(day) {
				held += r.Held
			}
			must.Eq(t, ms, held, must.Sprint("seed ", seed, ", ", day))
		}
		consistent(t, l)
	}
}

func TestFold_TotalsStay(t *testing.T) {
	var rows []Row
	for i := range 100 {
		r := Row{Key: Key{Namespace: fmt.Sprint("n", i%3), Job: strconv.Itoa(i), Kind: "k", Pool: "gpu", Queue: fmt.Sprint("q", i%2)}}
		r.Held = int64(i)
		rows = append(rows, r)
	}
	folded := Fold(slices.Clone(rows), 5, 0)
	must.Len(t, 3*5+3*2, folded)
	for _, by := range []By{ByQueue, ByNamespace, ByPool, ByDay} {
		must.Eq(t, Group(rows, by), Group(folded, by))
	}
	must.Len(t, 18, Group(folded, ByJob), must.Sprint("a namespace has one row for all its other jobs"))
	must.Eq(t, Group(rows, ByQueue), Group(FoldNamespaces(rows, 1), ByQueue))
	must.Len(t, 2, Group(FoldNamespaces(rows, 1), ByNamespace))
}
