// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stall

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func steps(r *Rule, n int, each time.Duration) {
	for range n {
		r.Made(1, each)
	}
}

func after(t *testing.T, r *Rule) time.Duration {
	t.Helper()
	limit, known := r.Limit()
	must.True(t, known)
	return limit.After
}

func TestLimit(t *testing.T) {
	var r Rule
	steps(&r, Enough-1, time.Second)
	_, known := r.Limit()
	must.False(t, known, must.Sprint("too few steps"))
	steps(&r, 1, time.Second)
	must.Eq(t, Factor*time.Second, after(t, &r))

	steps(&r, Window, 100*time.Millisecond)
	must.Eq(t, Floor, after(t, &r), must.Sprint("older steps are forgotten"))

	r.Formed()
	must.Eq(t, Young, after(t, &r), must.Sprint("the first steps of a ring may be slow"))
	steps(&r, Enough, 100*time.Millisecond)
	must.Eq(t, Floor, after(t, &r))

	r.Made(1, 30*time.Second)
	steps(&r, Window, 100*time.Millisecond)
	must.Eq(t, Again*30*time.Second, after(t, &r), must.Sprint("a pause that was seen once may recur"))
}

// A process that is stopped makes no step, so neither a young ring nor an earlier pause gives it
// more time.
func TestStoppedLimit(t *testing.T) {
	var r Rule
	check := func(want time.Duration, compared string) {
		t.Helper()
		limit, known := r.StoppedLimit()
		_, both := r.Limit()
		must.EqOp(t, both, known)
		must.EqOp(t, want > 0, known)
		if known {
			must.Eq(t, Limit{want, compared}, limit)
		}
	}
	steps(&r, Enough-1, time.Second)
	check(0, "")
	steps(&r, 1, time.Second)
	check(StoppedFactor*time.Second, "the median of the last 20 was 1.0 s")
	steps(&r, Window, 100*time.Millisecond)
	check(StoppedFloor, "the median of the last 100 was 0.10 s")
	r.Made(1, 7*time.Second)
	check(StoppedFloor, "the median of the last 100 was 0.10 s")
	r.Broke(time.Minute)
	r.Formed()
	check(StoppedFloor, "the median of the last ring was 0.10 s")
}

// A report of several steps counts as so many.
func TestMedian(t *testing.T) {
	var r Rule
	r.Made(10, 3*time.Second)
	r.Made(6, time.Second)
	r.Made(5, 2*time.Second)
	must.Eq(t, 2*time.Second, r.median())
	must.Eq(t, 0, new(Rule).median())
}

func TestARingBeforeCountsIfItMadeEnough(t *testing.T) {
	var r Rule
	steps(&r, Enough, 10*time.Second)
	for range 3 { // rings that fail early
		r.Formed()
		must.Eq(t, Factor*10*time.Second, after(t, &r))
		steps(&r, 2, time.Second)
	}
}

func TestSteps(t *testing.T) {
	var r Rule
	steps(&r, Enough, time.Second)
	limit, _ := r.Limit()
	must.Eq(t, "the slowest of the last 20 took 1.0 s", limit.Compared)
	r.Formed()
	limit, _ = r.Limit()
	must.Eq(t, "the slowest of the last ring took 1.0 s", limit.Compared)
	r.Broke(40 * time.Second)
	limit, _ = r.Limit()
	must.Eq(t, "the longest pause of the job took 40 s", limit.Compared)
}

// TestLimitProperties checks for random steps, in random portions and rings, that the limit is
// never below the floor, nor below the multiples of the recent and the longest steps, and that
// it does not exceed the largest of these.
func TestLimitProperties(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var r Rule
		var ring []time.Duration
		var longest time.Duration
		for range 400 {
			switch rng.IntN(60) {
			case 0:
				r.Formed()
				ring = nil
				continue
			case 1:
				q := time.Duration(rng.IntN(60)) * time.Second
				r.Broke(q)
				longest = max(longest, q)
			}
			n, slowest := 1+rng.IntN(7), time.Duration(0)
			for range n {
				d := time.Duration(1+rng.IntN(2000)) * time.Millisecond
				if rng.IntN(50) == 0 {
					d *= 20
				}
				slowest = max(slowest, d)
				ring = append(ring, d)
			}
			r.Made(n, slowest)
			longest = max(longest, slowest)
			limit, known := r.Limit()
			if stopped, also := r.StoppedLimit(); also {
				must.LessEq(t, limit.After, stopped.After, must.Sprint("seed ", seed))
				must.GreaterEq(t, StoppedFloor, stopped.After, must.Sprint("seed ", seed))
			}
			if !known {
				must.Less(t, Enough, len(ring), must.Sprint("seed ", seed))
				continue
			}
			must.GreaterEq(t, Floor, limit.After, must.Sprint("seed ", seed))
			must.GreaterEq(t, Again*longest, limit.After, must.Sprint("seed ", seed))
			if len(ring) < Enough {
				must.GreaterEq(t, Young, limit.After, must.Sprint("seed ", seed))
				continue
			}
			// A portion counts as a whole, so a few more steps than Window may count.
			most, least := time.Duration(0), time.Duration(0)
			for i, d := range ring {
				if age := len(ring) - i; age <= Window {
					least = max(least, d)
				}
				if age := len(ring) - i; age <= Window+14 {
					most = max(most, d)
				}
			}
			must.GreaterEq(t, Factor*least, limit.After, must.Sprint("seed ", seed))
			must.LessEq(t, max(Floor, Factor*most, Again*longest), limit.After, must.Sprint("seed ", seed))
		}
	}
}

// TestAPauseThatRecursIsSoonWithinTheLimit trains with a pause every so many steps, and breaks
// the ring when the limit is exceeded; the steps since the last commit are then repeated. Such
// a script must not be broken forever: each break at least doubles the limit.
func TestAPauseThatRecursIsSoonWithinTheLimit(t *testing.T) {
	for _, every := range []int{1, 10, 50, 150, 1000} {
		for _, pause := range []time.Duration{time.Second, 6 * time.Second, 30 * time.Second, 10 * time.Minute} {
			var r Rule
			breaks, passed := 0, 0
			for passed < 5 {
				steps(&r, every, 50*time.Millisecond)
				limit, known := r.Limit()
				if known && pause > limit.After {
					breaks++
					r.Broke(limit.After)
					r.Formed()
					must.Less(t, 9, breaks, must.Sprint(every, " steps, pause of ", pause))
					continue
				}
				passed++
				r.Made(1, pause)
			}
			most := 0
			for limit := Floor; limit < pause; limit *= 2 {
				most++
			}
			must.LessEq(t, most, breaks, must.Sprint(every, " steps, pause of ", pause))
		}
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		ranks []Activity
		want  Verdict
	}{
		"one is stopped, others wait":        {[]Activity{Idle, Stopped, Idle}, Verdict{Causes: []int{1}, Stopped: true, Why: "stopped by a signal"}},
		"one is stopped, others spin":        {[]Activity{Busy, Busy, Stopped}, Verdict{Causes: []int{2}, Stopped: true, Why: "stopped by a signal"}},
		"two are stopped":                    {[]Activity{Stopped, "", Stopped}, Verdict{Causes: []int{0, 2}, Stopped: true, Why: "stopped by a signal"}},
		"one hangs without CPU":              {[]Activity{Idle, Idle}, Verdict{Why: "all processes wait, and use hardly any CPU time"}},
		"rank 0 evaluates":                   {[]Activity{Busy, Idle, Idle}, Verdict{Patient: true, Why: "a process uses CPU time"}},
		"rank 0 writes a checkpoint":         {[]Activity{Disk, Idle}, Verdict{Causes: []int{0}, Patient: true, Why: "waiting for a disk or a file server"}},
		"a host with an older agent":         {[]Activity{Idle, ""}, Verdict{Patient: true, Why: "it is unknown what the processes do"}},
		"an activity of a later version too": {[]Activity{Idle, "dances"}, Verdict{Patient: true, Why: "it is unknown what the processes do"}},
	} {
		must.Eq(t, c.want, Judge(c.ranks), must.Sprint(name))
	}
}
