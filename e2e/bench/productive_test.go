// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// drawn is a run as its script recorded it, and as Nomad and the training report it.
type drawn struct {
	record   train.Record
	capacity []capacity
	events   []Happened
	until    float64 // in seconds since the first step; the first step's own time is before

	allocs []usage.Alloc
	report usage.Report
}

// draw draws a run of a number of steps. It has failures, after which steps are repeated, and
// slots that come and go. Its ring always has all slots.
func draw(rng *rand.Rand, start time.Time, wanted int) (d drawn) {
	unix := func(at float64) float64 { return float64(start.UnixMilli())/1000 + at }
	steps := map[int]int{} // by size
	slots, at := fullSlots, -fullStep.Seconds()
	d.capacity = []capacity{{at, slots}}
	d.report.Resizes = []usage.Resize{{Time: unix(at), To: slots, Start: true}}
	for step := 1; step <= wanted; step++ {
		took := fullStep.Seconds() * float64(fullSlots) / float64(slots)
		at += took
		steps[slots]++
		d.record = append(d.record, train.Event{Kind: "step", T: unix(at), Step: step})
		switch change := rng.IntN(20); {
		case step == wanted || change > 2:
		case change == 0: // a rank dies, and steps since the last commit are lost
			gap, again := float64(rng.IntN(30))/10, min(step-1, rng.IntN(4))
			d.events = append(d.events, Happened{At: at + 0.001, Cause: rankKilled})
			at += gap
			d.report.Resizes = append(d.report.Resizes, usage.Resize{Time: unix(at), From: slots, To: slots, Failure: true, Gap: gap, Lost: float64(again)})
			step -= again
		default: // half of the slots go, or come
			to := fullSlots + fullSlots/2 - slots
			d.events = append(d.events, Happened{At: at + 0.001, Cause: halved})
			d.capacity = append(d.capacity, capacity{at, to})
			gap := float64(rng.IntN(10)) / 10
			at += gap
			d.report.Resizes = append(d.report.Resizes, usage.Resize{Time: unix(at), From: slots, To: to, Gap: gap})
			slots = to
		}
	}
	d.until, d.report.Size = at, slots
	for size, n := range steps {
		d.report.Steps = append(d.report.Steps, usage.Steps{Size: size, N: n, Seconds: fullStep.Seconds() * float64(fullSlots) / float64(size)})
	}
	for i, c := range d.capacity {
		until := d.until
		if i+1 < len(d.capacity) {
			until = d.capacity[i+1].from
		}
		millis := func(at float64) time.Time { return start.Add(time.Duration(at*1000+0.5) * time.Millisecond) }
		d.allocs = append(d.allocs, usage.Alloc{ID: strconv.Itoa(i), Slots: c.slots, Created: millis(c.from), Ended: millis(until)})
	}
	return d
}

// The bench computes the productive share of a run from the script's own record. The
// autoscaler computes it from Nomad's times and the training's report. Both agree.
func TestProductive_AsTheAutoscalerCountsIt(t *testing.T) {
	least := 1.0
	for seed := range uint64(200) {
		start := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
		d := draw(rand.New(rand.NewPCG(seed, 1)), start, 100)
		arrived := arrivals(d.record, 100)
		r := Run{Events: d.events}
		r.account(arrived, d.capacity, 0)

		key := identity.JobKey{Namespace: "default", ID: "j"}
		job := usage.Job{Key: key, Pool: "gpu", Since: start.Add(-time.Second)}
		l, end := usage.New(), start.Add(time.Duration(d.until*1000)*time.Millisecond)
		account := func(ended bool) {
			l.Account(end, []usage.Job{job}, func(yield func(usage.Alloc) bool) {
				for i, a := range d.allocs {
					a.Job = key
					if i == len(d.allocs)-1 && !ended {
						a.Ended = time.Time{}
					}
					if !yield(a) {
						return
					}
				}
			})
		}
		account(false)
		l.Report(key, &d.report, end)
		account(true)
		share, known := l.Jobs[key].Total.Share()
		must.True(t, known)
		must.InDelta(t, r.Held, float64(l.Jobs[key].Total.Held)/1000, 0.1, must.Sprint(seed))
		must.InDelta(t, r.Productive(), share, 0.002, must.Sprint(seed))
		least = min(least, share)
	}
	must.Less(t, 0.7, least, must.Sprint("failures and resizes cost something"))
}
