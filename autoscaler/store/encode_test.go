// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/history"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

var t0 = time.Unix(1_800_000_000, 0)

func TestEncode_LeavesOutWhatCannotBeSaved(t *testing.T) {
	h := history.New()
	for i := range 100 {
		h.Jobs[planner.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}] = &history.Job{Attained: 1}
	}
	h.Jobs[planner.JobKey{Namespace: "default", ID: "job-7"}].Lost = math.Inf(1)
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
		k := planner.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}
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
	k := planner.JobKey{Namespace: "default", ID: "job-7"}
	must.Eq(t, 7, m.Jobs[k].Attained)
	must.True(t, m.Jobs[k].FirstSeen.Equal(t0))
}

func TestEncode_TenThousandJobsFit(t *testing.T) {
	h := history.New()
	for i := range 10_000 {
		r := &history.Job{Created: uint64(i) * 7919, FirstSeen: t0.Add(time.Duration(i) * time.Second), Attained: float64(i) * math.Pi, RunTime: float64(i) * math.E, Counts: map[string]int{"workers": i % 16}}
		for n := range 4 {
			r.Measurements = append(r.Measurements, history.Measurement{Point: speedup.Point{Size: n + 1, StepTime: 1 / float64(i+n+1), Samples: i}, At: r.FirstSeen.Add(time.Duration(n) * time.Minute), Counted: i * 7, Trials: 1 + n})
		}
		h.Jobs[planner.JobKey{Namespace: "default", ID: fmt.Sprintf("training-job-%d", i)}] = r
	}
	snap, err := Encode(h)
	must.NoError(t, err)
	must.Eq(t, 0, snap.Dropped)
	for _, text := range snap.texts {
		must.LessEq(t, shardSize, len(text))
	}
}

// TestEncode_StatesTakeNoJobsPlace has policies ask for more and more to be
// given back: what is too much is lost, and no job is.
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
			h.Jobs[planner.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}] = &history.Job{Attained: float64(i)}
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
