// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

var t0 = time.Unix(1_800_000_000, 0)

func TestEncode_LeavesOutWhatCannotBeSaved(t *testing.T) {
	h := history.New()
	for i := range 100 {
		h.Jobs[identity.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}] = &history.Job{Attained: 1}
	}
	h.Jobs[identity.JobKey{Namespace: "default", ID: "job-7"}].Lost = math.Inf(1)
	snap, err := Encode(h)
	must.NoError(t, err)
	must.Eq(t, 1, snap.Dropped)
	m, lost := decode(snap.texts)
	must.NoError(t, lost)
	must.MapLen(t, 99, m.Jobs)
}

func TestEncode_SavesAndLoads(t *testing.T) {
	h := history.New()
	for i := range 500 {
		k := identity.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}
		h.Jobs[k] = &history.Job{Created: uint64(i), FirstSeen: t0, Attained: float64(i), Counts: map[string]int{"w": i}}
	}
	h.States["gpu"] = []byte("state")
	snap, err := Encode(h)
	must.NoError(t, err)
	must.Eq(t, 0, snap.Dropped)
	again, err := Encode(h)
	must.NoError(t, err)
	must.Eq(t, snap.texts, again.texts, must.Sprint("nothing changed, and yet all would be written"))

	m, lost := decode(snap.texts)
	must.NoError(t, lost)
	must.MapLen(t, 500, m.Jobs)
	must.Eq(t, "state", string(m.States["gpu"]))
	k := identity.JobKey{Namespace: "default", ID: "job-7"}
	must.Eq(t, 7, m.Jobs[k].Attained)
	must.True(t, m.Jobs[k].FirstSeen.Equal(t0))
}

// TestEncode_WhereStepsAreSlow: step times by placement are saved and loaded. A history
// without them can be read, and no job is displaced by them.
func TestEncode_WhereStepsAreSlow(t *testing.T) {
	placed := func(n int) (out []history.Placed) {
		for i := range n {
			p := history.Placed{Crossing: migrate.Crossing{Level: "meta.rack", Domains: i}}
			p.Point, p.At = speedup.Point{Size: 1 + i, StepTime: 1 / float64(n+i), Samples: 100}, t0.Add(time.Duration(i*n)*time.Second)
			out = append(out, p)
		}
		return out
	}
	key := identity.JobKey{Namespace: "default", ID: "a"}
	h := history.New()
	h.Jobs[key] = &history.Job{FirstSeen: t0, Placed: placed(3)}
	h.Kinds["default/bert"] = &history.Kind{Used: t0, Placed: []migrate.Point{{Size: 4, Crossing: migrate.Crossing{Level: "meta.rack", Domains: 2}, StepTime: 1.5}}}
	snap, err := Encode(h)
	must.NoError(t, err)
	m, lost := decode(snap.texts)
	must.NoError(t, lost)
	must.Len(t, 3, m.Jobs[key].Placed)
	must.Eq(t, migrate.Crossing{Level: "meta.rack", Domains: 2}, m.Jobs[key].Placed[2].Crossing)
	must.True(t, h.Jobs[key].Placed[2].At.Equal(m.Jobs[key].Placed[2].At))
	must.Eq(t, h.Jobs[key].Sensitivity(), m.Jobs[key].Sensitivity())
	must.Eq(t, h.Kinds["default/bert"].Placed, m.Kinds["default/bert"].Placed)

	t.Log("of an older version, which knew nothing of it")
	old := &shard{}
	must.NoError(t, json.Unmarshal([]byte(`{"jobs":[{"key":{"namespace":"default","id":"a"},"record":{"created":7,"points":[{"size":4,"step_time":0.5}]}}],"kinds":{"default/bert":{"shape":[],"used":"2026-01-01T00:00:00Z"}}}`), old))
	text, err := old.encode()
	must.NoError(t, err)
	m = history.New()
	must.NoError(t, decodeShard(m, text))
	must.Len(t, 1, m.Jobs[key].Points())
	must.SliceEmpty(t, m.Jobs[key].Placed)
	must.SliceEmpty(t, m.Kinds["default/bert"].Placed)

	t.Log("too much of it is left out, and still known to this autoscaler")
	full, rng := &shard{}, rand.New(rand.NewPCG(5, 6))
	for i := range 1000 {
		j := &history.Job{Attained: 1, Placed: placed(16)}
		for k := range j.Placed {
			j.Placed[k].StepTime = rng.Float64()
		}
		full.Jobs = append(full.Jobs, savedJob{identity.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}, j})
	}
	known := full.Jobs[7].Job
	text, dropped, err := full.fit()
	must.NoError(t, err)
	must.Zero(t, dropped)
	m = history.New()
	must.NoError(t, decodeShard(m, text))
	must.MapLen(t, 1000, m.Jobs)
	must.Len(t, 16, known.Placed)
}

// TestEncode_OneNamespaceTakesNoOthersPlace has a namespace save more than fits, in a shard
// in which another namespace has ten jobs and a kind.
func TestEncode_OneNamespaceTakesNoOthersPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	name := func(n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[random.IntN(64)]
		}
		return string(out)
	}
	groups := func(n int) *history.Job {
		if n == 0 {
			return &history.Job{}
		}
		j := &history.Job{Counts: map[string]int{}, GrowAfter: map[string]time.Time{}, Move: &history.Move{From: map[string]int{}, To: map[string]int{}}}
		for range n {
			g := name(128)
			j.Counts[g], j.GrowAfter[g], j.Move.From[g], j.Move.To[g] = 1, t0, 2, 3
		}
		return j
	}
	for what, tc := range map[string]struct {
		jobs, groups, kinds int
		kept                bool // some of its own
	}{
		"a job of 256 groups with long names": {jobs: 1, groups: 256},
		"five of them":                        {jobs: 5, groups: 256},
		"next to many small ones":             {jobs: 3000, kept: true},
		"those of a few groups":               {jobs: 300, groups: 8, kept: true},
		"kinds":                               {jobs: 1, kinds: 500, kept: true},
	} {
		t.Run(what, func(t *testing.T) {
			s := shard{Kinds: map[string]*history.Kind{"team/bert": {Used: t0}}}
			for i := range tc.jobs {
				s.Jobs = append(s.Jobs, savedJob{identity.JobKey{Namespace: "hostile", ID: fmt.Sprint(i, name(20))}, groups(tc.groups)})
			}
			for i := range 10 {
				j := &history.Job{FirstSeen: t0, Submitted: t0, FirstStart: t0, Attained: float64(i), Counts: map[string]int{"workers": i}, Placed: []history.Placed{{}}}
				s.Jobs = append(s.Jobs, savedJob{identity.JobKey{Namespace: "team", ID: strconv.Itoa(i)}, j})
			}
			for i := range tc.kinds {
				k := &history.Kind{Used: t0}
				for n := range 20 {
					k.Placed = append(k.Placed, migrate.Point{Size: 1 + n, StepTime: random.Float64()})
				}
				s.Kinds[fmt.Sprint("hostile/", i)] = k
			}
			all, again := s, s
			text, dropped, err := s.fit()
			must.NoError(t, err)
			must.LessEq(t, shardSize, len(text))
			other, _, _ := again.fit()
			must.Eq(t, text, other, must.Sprint("nothing changed, and yet it would be written"))

			m := history.New()
			must.NoError(t, decodeShard(m, text))
			for _, j := range all.Jobs[tc.jobs:] {
				must.MapContainsKey(t, m.Jobs, j.Key)
			}
			must.Eq(t, len(all.Jobs), len(m.Jobs)+dropped)
			must.Eq(t, tc.kinds == 0, dropped > 0, must.Sprint("kinds go before jobs, and nothing goes that has room"))
			must.Eq(t, tc.kept, len(m.Jobs) > 10)
			if tc.jobs < 1000 && tc.groups != 8 { // these take a share each
				must.MapContainsKey(t, m.Kinds, "team/bert")
			}
			at := -1
			for _, j := range s.Jobs {
				i := slices.IndexFunc(all.Jobs, func(b savedJob) bool { return b.Key == j.Key })
				must.Greater(t, at, i, must.Sprint("they are in another order"))
				at = i
			}
		})
	}
}

func TestEncode_TenThousandJobsFit(t *testing.T) {
	h := history.New()
	for i := range 10_000 {
		r := &history.Job{Created: uint64(i) * 7919, FirstSeen: t0.Add(time.Duration(i) * time.Second), Attained: float64(i) * math.Pi, RunTime: float64(i) * math.E, Counts: map[string]int{"workers": i % 16}}
		for n := range 4 {
			p := history.Placed{Crossing: migrate.Crossing{Level: "meta.rack", Domains: n}}
			p.Point, p.At = speedup.Point{Size: 8, StepTime: 1 / float64(i+n+1), Samples: i}, r.FirstSeen.Add(time.Duration(n)*time.Hour)
			r.Placed = append(r.Placed, p)
			r.Measurements = append(r.Measurements, history.Measurement{Point: speedup.Point{Size: n + 1, StepTime: 1 / float64(i+n+1), Samples: i}, At: r.FirstSeen.Add(time.Duration(n) * time.Minute), Counted: i * 7, Trials: 1 + n})
		}
		h.Jobs[identity.JobKey{Namespace: "default", ID: fmt.Sprintf("training-job-%d", i)}] = r
	}
	snap, err := Encode(h)
	must.NoError(t, err)
	must.Eq(t, 0, snap.Dropped)
	for _, text := range snap.texts {
		must.LessEq(t, shardSize, len(text))
	}
	m, lost := decode(snap.texts)
	must.NoError(t, lost)
	must.Len(t, 4, m.Jobs[identity.JobKey{Namespace: "default", ID: "training-job-7"}].Placed)
}

// TestEncode_StatesTakeNoJobsPlace has policies save larger and larger states. States that
// are too large are dropped, and no job is.
func TestEncode_StatesTakeNoJobsPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	for _, size := range []int{0, 1, 40 << 10, 100 << 10, 1 << 20, 4 << 20} {
		h := history.New()
		for i := range 500 {
			h.Jobs[identity.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}] = &history.Job{Attained: float64(i)}
		}
		h.States["gpu"] = random(size)
		snap, err := Encode(h)
		must.NoError(t, err)
		for _, text := range snap.texts {
			must.LessEq(t, shardSize, len(text))
		}
		m, lost := decode(snap.texts)
		must.NoError(t, lost)
		must.MapLen(t, 500, m.Jobs)
		if size <= 1<<20 {
			must.Zero(t, snap.Dropped)
			must.Eq(t, h.States["gpu"], m.States["gpu"])
		} else {
			must.Eq(t, 1, snap.Dropped)
			must.MapEmpty(t, m.States)
		}
	}
}

func TestEncode_GarbageIsAnError(t *testing.T) {
	for _, text := range []string{"!", "AAAA", "H4sIAAAAAAAA"} {
		must.Error(t, decodeShard(history.New(), text))
	}
}
