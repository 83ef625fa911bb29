// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

// usageWorld has jobs whose allocations begin and end over three days, and an account of
// them whose leaders die.
type usageWorld struct {
	rng    *rand.Rand
	url    string
	writes int // until Nomad loses the leader; below 0 is never
	now    time.Time
	jobs   []usage.Job
	allocs []usage.Alloc
	steps  map[identity.JobKey]int // since the job last had no allocation
	made   int                     // all steps before that
}

func newUsageWorld(t *testing.T, seed uint64) *usageWorld {
	w := &usageWorld{rng: rand.New(rand.NewPCG(seed, 3)), writes: -1, now: time.Date(2026, 11, 28, 20, 0, 0, 0, time.UTC), steps: map[identity.JobKey]int{}}
	fake := nomadtest.New()
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			if w.writes == 0 {
				http.Error(rw, "the leader is dead", http.StatusForbidden)
				return
			}
			w.writes--
		}
		fake.ServeHTTP(rw, r)
	}))
	t.Cleanup(web.Close)
	w.url = web.URL
	for i := range 6 {
		key := identity.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}
		w.jobs = append(w.jobs, usage.Job{Key: key, Pool: "gpu", Queue: "*", Kind: "bert", Since: w.now})
	}
	return w
}

func (w *usageWorld) load(t *testing.T) (*Usage, *usage.Ledger) {
	client, err := api.NewClient(&api.Config{Address: w.url})
	must.NoError(t, err)
	u := NewUsage(client, "default", nil)
	l, lost, err := u.Load(t.Context(), w.now)
	must.NoError(t, errors.Join(lost, err))
	return u, l
}

// pass lets time pass: allocations begin and end.
func (w *usageWorld) pass() {
	before := w.now
	w.now = w.now.Add(time.Duration(1+w.rng.IntN(40)) * time.Minute)
	between := func() time.Time {
		return before.Add(time.Duration(w.rng.Int64N(int64(w.now.Sub(before))))).Truncate(time.Millisecond)
	}
	for i := range w.allocs {
		if a := &w.allocs[i]; a.Ended.IsZero() && w.rng.IntN(4) == 0 {
			a.Ended, a.Failed = between(), w.rng.IntN(2) == 0
		}
	}
	for key, n := range w.steps {
		if !slices.ContainsFunc(w.allocs, func(a usage.Alloc) bool { return a.Job == key && a.Ended.IsZero() }) {
			w.made += n
			delete(w.steps, key) // the next agents have no memory of them
		}
	}
	j := w.jobs[w.rng.IntN(len(w.jobs))].Key
	w.allocs = append(w.allocs, usage.Alloc{ID: strconv.Itoa(len(w.allocs)), Job: j, Slots: 1 + w.rng.IntN(4), Created: between()})
	w.steps[j] += w.rng.IntN(600)
	w.jobs[w.rng.IntN(len(w.jobs))].Resizes++
}

func (w *usageWorld) account(l *usage.Ledger) {
	l.Account(w.now, w.jobs, slices.Values(w.allocs))
	for key, n := range w.steps {
		l.Report(key, &usage.Report{Size: 2, Steps: []usage.Steps{{Size: 2, N: n, Seconds: 1}}}, w.now)
	}
}

// save saves the ledger as the leader does.
func (w *usageWorld) save(t *testing.T, u *Usage, l *usage.Ledger) error {
	snap, err := EncodeUsage(l, w.now, 100)
	must.NoError(t, err)
	archived, err := u.Save(t.Context(), snap, func() error { return nil })
	for _, day := range archived {
		l.Close(day)
	}
	return err
}

// TestUsage_CrashAtEveryWrite lets the leader die at each write of a run of two days, once
// at a time and then again and again. Nothing is lost and nothing is counted twice.
func TestUsage_CrashAtEveryWrite(t *testing.T) {
	run := func(t *testing.T, next func(rng *rand.Rand) int) (crashes int) {
		w := newUsageWorld(t, 5)
		crash := rand.New(rand.NewPCG(9, 9))
		w.writes = next(crash)
		u, l := w.load(t)
		for range 80 {
			w.pass()
			w.account(l)
			if err := w.save(t, u, l); err != nil {
				crashes++
				for range w.rng.IntN(2) { // no one leads for a while
					w.pass()
				}
				w.writes = next(crash)
				u, l = w.load(t)
			}
		}
		w.writes = -1
		w.now = w.now.Add(time.Second)
		w.account(l)
		must.NoError(t, w.save(t, u, l))
		_, l = w.load(t)
		rows, err := u.Days(t.Context(), 0, l.Closed)
		must.NoError(t, err)
		for _, day := range l.Days() {
			rows = append(rows, l.Day(day)...)
		}
		w.check(t, rows)
		return crashes
	}
	t.Run("once", func(t *testing.T) {
		for k := 0; ; k += 31 {
			first := true
			if run(t, func(*rand.Rand) int {
				if first {
					first = false
					return k
				}
				return -1
			}) == 0 {
				must.Greater(t, 100, k)
				return
			}
		}
	})
	t.Run("often", func(t *testing.T) {
		must.Greater(t, 20, run(t, func(rng *rand.Rand) int { return rng.IntN(12) }))
	})
}

// check compares the rows with the allocations' own times, day by day and job by job.
func (w *usageWorld) check(t *testing.T, rows []usage.Row) {
	t.Helper()
	type key struct {
		day usage.Day
		job string
	}
	want, got := map[key]int64{}, map[key]int64{}
	failures, resizes, steps := 0, 0, w.made
	for _, j := range w.jobs {
		resizes += j.Resizes
		steps += w.steps[j.Key]
	}
	for _, a := range w.allocs {
		end := a.Ended
		if end.IsZero() {
			end = w.now
		}
		if a.Failed {
			failures++
		}
		for from := a.Created; from.Before(end); {
			day := usage.DayOf(from)
			to := (day + 1).Start()
			if end.Before(to) {
				to = end
			}
			want[key{day, a.Job.ID}] += to.Sub(from).Milliseconds() * int64(a.Slots)
			from = to
		}
	}
	for _, r := range rows {
		if r.Held > 0 {
			got[key{r.Day, r.Job}] += r.Held
		}
		must.Eq(t, r.Held, r.Productive+r.Starting+r.Resizing+r.Lost+r.Unknown+r.Idle())
		must.GreaterEq(t, 0, r.Idle())
		failures -= r.Failures
		resizes -= r.Resizes
		steps -= int(r.Productive / 2000)
	}
	must.Eq(t, want, got)
	must.Zero(t, failures)
	must.GreaterEq(t, 0, resizes)
	must.GreaterEq(t, 0, steps)
}

// TestUsage_Fits saves the usage of more jobs than a variable holds, most of them in one
// namespace.
func TestUsage_Fits(t *testing.T) {
	l, rng := usage.New(), rand.New(rand.NewPCG(1, 2))
	at := time.UnixMilli(1_800_000_000_000)
	var allocs []usage.Alloc
	var jobs []usage.Job
	add := func(namespace string, n int) {
		for n > 0 {
			key := identity.JobKey{Namespace: namespace, ID: fmt.Sprintf("job-%x", rng.Uint64())}
			if usage.Shard(key) != 0 {
				continue
			}
			n--
			jobs = append(jobs, usage.Job{Key: key, Pool: "gpu", Queue: "*"})
			allocs = append(allocs, usage.Alloc{ID: fmt.Sprintf("%x-%x", rng.Uint64(), rng.Uint64()), Job: key, Slots: 1, Created: at.Add(-time.Duration(rng.Int64N(int64(time.Hour))))})
		}
	}
	add("hostile", 2000)
	add("team", 20)
	l.Account(at, jobs, slices.Values(allocs))
	snap, err := EncodeUsage(l, at, 100)
	must.NoError(t, err)
	must.Positive(t, snap.Dropped)
	must.LessEq(t, shardSize, len(snap.texts[0]))
	back := usage.New()
	must.NoError(t, decodeUsage(back, 0, snap.texts[0]))
	held := func(l *usage.Ledger) map[string]int64 {
		out := map[string]int64{}
		for _, r := range l.Rows {
			out[r.Namespace] += r.Held
		}
		return out
	}
	must.Eq(t, held(l), held(back))
	team := 0
	for key := range back.Jobs {
		if key.Namespace == "team" {
			team++
		}
	}
	must.Eq(t, 20, team, must.Sprint("the other namespace loses nothing"))
	back.Account(at, jobs, slices.Values(allocs))
	must.Eq(t, held(l), held(back), must.Sprint("counted twice"))
	again, err := EncodeUsage(back, at, 100)
	must.NoError(t, err)
	twice := usage.New()
	must.NoError(t, decodeUsage(twice, 0, again.texts[0]))
	must.Eq(t, held(l), held(twice))

	t.Log("a day of many jobs, and one of many namespaces")
	day := usage.DayOf(at)
	for _, namespaces := range []int{1, 5000} {
		var rows []usage.Row
		for i := range 20_000 {
			r := usage.Row{Key: usage.Key{Day: day, Pool: "gpu", Namespace: fmt.Sprintf("%x", i%namespaces*7919*7919), Job: strconv.FormatUint(rng.Uint64(), 10)}}
			r.Held = rng.Int64N(1e9)
			rows = append(rows, r)
		}
		text, err := encodeDay(slices.Clone(rows), 100)
		must.NoError(t, err)
		must.LessEq(t, shardSize, len(text))
		var s usageShard
		must.NoError(t, unpack(text, &s))
		must.Eq(t, usage.Group(rows, usage.ByDay), usage.Group(s.Rows, usage.ByDay))
		t.Log(namespaces, "namespaces:", len(s.Rows), "rows,", len(text), "bytes")
	}
}

func TestUsage_ForgetsOldDays(t *testing.T) {
	w := newUsageWorld(t, 1)
	u, _ := w.load(t)
	row := usage.Row{Key: usage.Key{Namespace: "default", Job: "a"}}
	l := usage.New()
	for row.Day = 100; row.Day < 110; row.Day++ {
		r := row
		l.Rows[r.Key] = &r
	}
	must.NoError(t, w.save(t, u, l))
	must.MapEmpty(t, l.Rows)
	must.NoError(t, u.Forget(t.Context(), 104, func() error { return nil }))
	rows, err := u.Days(t.Context(), 0, 107)
	must.NoError(t, err)
	must.Len(t, 4, rows)
	_, l = w.load(t)
	must.Eq(t, 110, l.Closed)
}
