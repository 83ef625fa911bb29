// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

func at(generation uint64, first, step, firstAt, now float64) wire.Progress {
	return wire.Progress{Generation: generation, First: &first, Step: &step, FirstAt: firstAt, At: now, Every: 1, FirstSteppedAt: firstAt, SteppedAt: now}
}

func ringOf(generation uint64, n int) *elastic.Ring {
	return &elastic.Ring{Generation: generation, Members: make([]elastic.Member, n)}
}

func TestRingStatsMeasuresGapsBetweenSteps(t *testing.T) {
	l := newRingStats(nil)
	begin := time.Unix(1000, 0)
	l.form(ringOf(1, 2), begin)
	r := l.up(begin.Add(time.Second))
	must.NotNil(t, r, must.Sprint("nothing was reported yet: the rendezvous is all there is"))
	must.Eq(t, "start", r.Cause)

	must.Nil(t, l.progress(at(1, 1, 1, 1002, 1002)))
	must.Nil(t, l.progress(at(1, 1, 11, 1002, 1003)))
	must.Eq(t, wire.StepTime{Mean: 0.1, N: 10}, l.stepSeconds()[2])

	l.leave(time.Unix(1003, 0))
	l.form(ringOf(2, 4), time.Unix(1004, 0))
	must.Nil(t, l.up(time.Unix(1004, 0).Add(250*time.Millisecond)), must.Sprint("the first step is still to come"))
	r = l.progress(at(2, 12, 12, 1005, 1005))
	must.NotNil(t, r)
	gap, rendezvous := 2.0, 0.25
	must.Eq(t, wire.Resize{Generation: 2, From: 2, To: 4, Cause: "resize", Gap: &gap, Rendezvous: &rendezvous, LostSteps: new(float64), Time: 1004}, *r)
}

// If each rank has a batch of its own, a larger ring has more samples in a step.
func TestRingStatsMeasuresSamplesPerStep(t *testing.T) {
	report := func(l *ringStats, generation uint64, first, firstSamples, step, samples, now float64) {
		p := at(generation, first, step, 1000, now)
		p.FirstSamples, p.Samples = &firstSamples, &samples
		l.progress(p)
	}
	l := newRingStats(nil)
	l.form(ringOf(1, 2), time.Unix(1000, 0))
	report(l, 1, 1, 24, 11, 264, 1001)
	must.Eq(t, wire.StepTime{Mean: 0.1, N: 10, Samples: 24}, l.stepSeconds()[2])
	report(l, 1, 1, 24, 21, 504, 1002)
	must.Eq(t, wire.StepTime{Mean: 0.1, N: 20, Samples: 24}, l.stepSeconds()[2])

	l = newRingStats(&wire.Status{Size: 2, StepSeconds: l.stepSeconds()})
	must.Eq(t, wire.StepTime{Mean: 0.1, N: 20, Samples: 24}, l.stepSeconds()[2], must.Sprint("another leader goes on from here"))
	l.form(ringOf(2, 4), time.Unix(1003, 0))
	report(l, 2, 22, 552, 33, 1080, 1004)
	must.Eq(t, 48, l.stepSeconds()[4].Samples)
}

// changed begins a change from a ring that reported p to the next ring, which forms and
// connects in the second before 1020. r is the resize if it is measured at that point.
func changed(p wire.Progress, restarts bool, between func(*ringStats)) (l *ringStats, r *wire.Resize) {
	l = newRingStats(nil)
	first, second := ringOf(1, 2), ringOf(2, 3)
	first.Restarts, second.Restarts = restarts, restarts
	l.form(first, time.Unix(1000, 0))
	l.up(time.Unix(1000, 0))
	l.progress(p)
	between(l)
	l.leave(time.Unix(1011, 0))
	l.form(second, time.Unix(1019, 0))
	return l, l.up(time.Unix(1020, 0))
}

// resized measures such a change, after which the ring reports next.
func resized(p, next wire.Progress, restarts bool, between func(*ringStats)) wire.Resize {
	l, r := changed(p, restarts, between)
	if r == nil {
		r = l.progress(next)
	}
	return *r
}

func TestRingStatsCountsStepsMadeAgain(t *testing.T) {
	r := resized(at(1, 1, 20, 1001, 1010), at(2, 16, 16, 1022, 1022), false, (*ringStats).fail) // back to the commit after step 15
	must.Eq(t, "failure", r.Cause)
	must.Eq(t, 5, *r.LostSteps)
}

// The touched file shows a step before the script's line with the step's number.
func TestRingStatsWaitsForTheNumberOfTheFirstStep(t *testing.T) {
	shown := wire.Progress{Generation: 2, FirstSteppedAt: 1022, SteppedAt: 1022}
	again := shown
	again.SteppedAt = 1023 // another step, and still no line
	for name, tc := range map[string]struct {
		next wire.Progress
		lost *float64
	}{
		"the line comes":      {at(2, 16, 16, 1022, 1023), new(5.0)},
		"the line comes late": {again, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, r := changed(at(1, 1, 20, 1001, 1010), false, (*ringStats).fail)
			must.Nil(t, r)
			must.Nil(t, l.progress(shown))
			r = l.progress(tc.next)
			must.NotNil(t, r)
			must.Eq(t, tc.lost, r.LostSteps)
			must.Eq(t, new(12.0), r.Gap)
		})
	}
}

func TestRingStatsLeavesOutWhatIsUnknown(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	none := func(*ringStats) {}
	touched := func(p wire.Progress) wire.Progress {
		return wire.Progress{Generation: p.Generation, SteppedAt: p.SteppedAt, FirstSteppedAt: p.FirstSteppedAt}
	}
	every := func(n float64, p wire.Progress) wire.Progress { p.Every = n; return p }
	last, next, silent := at(1, 1, 20, 1001, 1010), at(2, 16, 16, 1025, 1025), wire.Progress{}
	for name, tc := range map[string]struct {
		last, next wire.Progress
		restarts   bool
		between    func(*ringStats)
		gap, lost  *float64
	}{
		"replaced, with numbers":          {last, next, true, none, f(15), f(5)},
		"replaced, steps without numbers": {touched(last), touched(next), true, none, f(15), nil},
		"replaced, nothing reported":      {silent, silent, true, none, nil, nil},
		"replaced, one number in 20":      {every(20, last), every(0, next), true, none, f(15), nil},
		"replaced, a number once":         {every(0, last), every(0, next), true, none, f(15), nil},
		"replaced, a host vanished":       {last, next, true, (*ringStats).vanish, f(15), nil},
		"clocks differ":                   {last, at(2, 16, 16, 1009, 1009), true, none, nil, f(5)},
		"stays, nothing reported":         {silent, silent, false, none, f(9), f(0)},
		"stays, one number in 20":         {every(20, last), every(0, next), false, none, f(15), f(0)},
		"stays, a failure":                {silent, silent, false, (*ringStats).fail, f(9), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := resized(tc.last, tc.next, tc.restarts, tc.between)
			must.Eq(t, tc.gap, r.Gap)
			must.Eq(t, tc.lost, r.LostSteps)
			must.Eq(t, tc.restarts, r.Rendezvous == nil)
		})
	}
}

func TestResizesAreToldWithWhatIsKnown(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	must.Eq(t, "gap 0.25 s", costOf(&wire.Resize{Gap: f(0.25), LostSteps: f(0)}))
	must.Eq(t, "gap 5.50 s, 7 steps made again", costOf(&wire.Resize{Gap: f(5.5), LostSteps: f(7)}))
	must.Eq(t, "gap unknown, unknown how many steps are made again", costOf(&wire.Resize{}))
}

func TestRingStatsKeepsTheBatchOfAnotherLeadersStatus(t *testing.T) {
	batch := &wire.Adaptive{Initial: 32, Batch: 64, Accumulation: 1, Efficiency: 0.9, LRFactor: 1.8}
	must.Eq(t, batch, newRingStats(&wire.Status{ProgressAt: 1, Adaptive: batch}).newest().Adaptive)
}

func TestRingStatsGoesOnFromAnotherLeadersStatus(t *testing.T) {
	step := 7.0
	l := newRingStats(&wire.Status{Size: 3, Generation: 4, Step: &step, ProgressAt: 50, StepSeconds: map[int]wire.StepTime{3: {Mean: 2, N: 10}},
		Resizes: []wire.Resize{{Generation: 4, To: 3}}})
	must.Eq(t, 10, l.stepSeconds()[3].N)
	must.Eq(t, 7.0, *l.newest().Step)
	must.Len(t, 1, l.resizes)
}

func TestRingStats_TheNextLeaderCountsNoStepTwice(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	l := newRingStats(&wire.Status{Size: 4, Generation: 3, Step: f(1000), ProgressAt: 1001, StepSeconds: map[int]wire.StepTime{4: {Mean: 1, N: 1000}}})
	l.progress(wire.Progress{Generation: 3, At: 1021, Step: f(1010), First: f(0), FirstAt: 1})
	got := l.stepSeconds()[4]
	must.Eq(t, 1010, got.N)
	must.InDelta(t, 1020.0/1010, got.Mean, 1e-9)
}
