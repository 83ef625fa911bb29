// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

var (
	onOne  = migrate.Crossing{}
	onTwo  = migrate.Crossing{Level: "meta.rack", Domains: 2}
	onFour = migrate.Crossing{Level: "meta.rack", Domains: 4}
)

// placedRun is a training that is moved about.
type placedRun struct {
	*training
	h    *History
	j    *Job
	kind string
	now  time.Time
	ring float64 // number of the ring
}

func newPlacedRun(h *History, kind string) *placedRun {
	return &placedRun{training: newTraining(), h: h, j: &Job{}, kind: kind, now: t0}
}

// at has the training run in a new ring at one place, and report every ten seconds.
func (r *placedRun) at(size int, where migrate.Crossing, step float64, d time.Duration) {
	r.ring++
	r.j.where = Where{size, where}
	r.stay(size, step, d)
}

func (r *placedRun) stay(size int, step float64, d time.Duration) {
	for range int(d / (10 * time.Second)) {
		r.now = r.now.Add(10 * time.Second)
		r.training.run(size, 10/step, step, 0)
		p := r.progress(size)
		p.Resizes = []Resize{{From: size, To: size, Cause: "resize", GapSeconds: f(0.3), Time: r.ring}}
		r.j.long(p, 1)
		r.h.Learn(r.j, r.kind, p, 1, r.now)
	}
}

func (r *placedRun) placed(size int, at migrate.Crossing) float64 {
	for _, p := range r.j.Placed {
		if p.Size == size && p.Crossing == at {
			return p.StepTime
		}
	}
	return 0
}

func TestPlaced_StepTimesByWhereTheWorkersWere(t *testing.T) {
	r := newPlacedRun(New(), "k")
	r.at(4, onOne, 1, 10*time.Minute)
	r.at(4, onTwo, 1.5, 10*time.Minute)
	r.at(2, onOne, 2, 10*time.Minute)
	must.InDelta(t, 1, r.placed(4, onOne), 1e-6)
	must.InDelta(t, 1.5, r.placed(4, onTwo), 0.01) // the training counts whole steps
	must.InDelta(t, 2, r.placed(2, onOne), 1e-6)
	ratio, known := migrate.Slowdown(4, onOne, onTwo, r.j.Sensitivity())
	must.True(t, known)
	must.InDelta(t, 1.5, ratio, 0.01)
	_, known = migrate.Slowdown(4, onOne, migrate.Crossing{Level: "meta.block", Domains: 2}, r.j.Sensitivity())
	must.False(t, known, must.Sprint("never measured"))

	t.Log("the next autoscaler knows it, and goes on")
	text, err := json.Marshal(r.j)
	must.NoError(t, err)
	next := newPlacedRun(New(), "k")
	must.NoError(t, json.Unmarshal(text, next.j))
	next.training, next.ring = r.training, r.ring
	must.Eq(t, r.j.Sensitivity(), next.j.Sensitivity())
	next.at(4, onFour, 3, 10*time.Minute)
	must.InDelta(t, 3, next.placed(4, onFour), 0.03)
	must.InDelta(t, 1.5, next.placed(4, onTwo), 0.01)
}

// TestPlaced_OnlyWhatIsKnown has steps whose placement is uncertain: none of them counts.
func TestPlaced_OnlyWhatIsKnown(t *testing.T) {
	for name, step := range map[string]func(i int, r *placedRun, p *Progress){
		"a pool without a topology, or workers that wait for a place": func(_ int, r *placedRun, _ *Progress) { r.j.where = Where{} },
		"a worker that the ring does not have yet":                    func(_ int, r *placedRun, _ *Progress) { r.j.where.Workers = 5 },
		"a ring without one of the workers":                           func(_ int, _ *placedRun, p *Progress) { p.Size = 3 },
		"another ring each time":                                      func(i int, _ *placedRun, p *Progress) { p.Resizes[0].Time = float64(i + 1) },
		"another place each time":                                     func(i int, r *placedRun, _ *Progress) { r.j.where.Domains = 2 + i%2 },
		"a training that does not count its steps": func(i int, _ *placedRun, p *Progress) {
			p.StepSeconds = map[string]StepTime{"4": {Mean: 1 + float64(i)/100}}
		},
		"few steps": func(i int, _ *placedRun, p *Progress) {
			p.StepSeconds = map[string]StepTime{"4": {Mean: 1, N: 4 + min(4*i, learnedSteps-1)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPlacedRun(New(), "k")
			for i := range 50 {
				r.now = r.now.Add(10 * time.Second)
				r.training.run(4, 10, 1, 0)
				p := r.progress(4)
				p.Resizes = []Resize{{From: 2, To: 4, Cause: "resize", GapSeconds: f(0.3), Time: 1}}
				r.j.where = Where{4, onTwo}
				step(i, r, p)
				r.j.long(p, 1)
				r.h.Learn(r.j, "k", p, 1, r.now)
			}
			must.SliceEmpty(t, r.j.Sensitivity().Points)
			must.MapEmpty(t, r.h.Kinds)
			must.Positive(t, r.j.Points()[0].StepTime, must.Sprint("the time of the size without a placement is known anyway"))
		})
	}
}

// The size of the ring is counted in slots. Each worker has two.
func TestPlaced_OfWorkersWithSeveralSlots(t *testing.T) {
	j, tr := &Job{}, newTraining()
	for i := range 20 {
		j.where = Where{2, onTwo}
		tr.run(4, 10, 1, 0)
		j.learn(tr.progress(4), 2, t0.Add(time.Duration(i)*10*time.Second))
	}
	must.Eq(t, []migrate.Point{{Size: 2, Crossing: onTwo, StepTime: 1}}, j.Sensitivity().Points)
}

// A job that moves gets slower or faster at its new place. Its times at other sizes stay.
func TestPlaced_AMoveIsNoDrift(t *testing.T) {
	r := newPlacedRun(New(), "k")
	r.at(2, onOne, 2, time.Hour)
	r.at(4, onTwo, 1.5, time.Hour)
	r.at(4, onOne, 0.75, time.Hour)
	must.InDelta(t, 0.75, timeOf(t, r.j, 4), 0.05)
	must.InDelta(t, 2, timeOf(t, r.j, 2), 0.05)
	must.InDelta(t, 1.5, r.placed(4, onTwo), 0.05)

	t.Log("a training that gets slower does so at all sizes, wherever it was")
	r.stay(4, 1.5, time.Hour)
	must.InDelta(t, 1.5, r.placed(4, onOne), 0.1)
	must.InDelta(t, 3, r.placed(4, onTwo), 0.2)
	must.InDelta(t, 4, timeOf(t, r.j, 2), 0.3)
	must.InDelta(t, 4, r.placed(2, onOne), 0.3)
}

func TestPlaced_TheOldestIsForgotten(t *testing.T) {
	r := newPlacedRun(New(), "k")
	for n := range placedLimit + 3 {
		r.at(20, migrate.Crossing{Level: "node", Domains: n + 1}, 0.5, time.Minute)
	}
	must.Len(t, placedLimit, r.j.Placed)
	must.Eq(t, 4, r.j.Placed[0].Domains)
	must.Eq(t, placedLimit+3, r.j.Placed[placedLimit-1].Domains)
}

func TestKind_TheNextRunKnowsWhatCrossingCosts(t *testing.T) {
	h := New()
	first := newPlacedRun(h, "default/bert")
	first.at(4, onTwo, 1.5, 10*time.Minute)
	must.MapEmpty(t, h.Kinds, must.Sprint("one place is no ratio"))
	first.at(4, onOne, 1, 10*time.Minute)
	second := newPlacedRun(h, "default/bert")
	second.at(4, onOne, 2, 10*time.Minute) // on slower devices
	own, alike := h.Sensitivities(second.j, second.kind)
	_, known := migrate.Slowdown(4, onOne, onTwo, own)
	must.False(t, known)
	ratio, known := migrate.Slowdown(4, onOne, onTwo, alike)
	must.True(t, known)
	must.InDelta(t, 1.5, ratio, 0.03)

	t.Log("what it finds out itself is related to that by what they have in common")
	second.at(4, onFour, 6, 30*time.Minute)
	_, alike = h.Sensitivities(second.j, second.kind)
	ratio, known = migrate.Slowdown(4, onTwo, onFour, alike)
	must.True(t, known)
	must.InDelta(t, 2, ratio, 0.06)

	t.Log("times that do not compare change nothing until one does")
	before := alike.Points
	nodes := func(n int) migrate.Crossing { return migrate.Crossing{Level: "node", Domains: n} }
	third := newPlacedRun(h, "default/bert")
	third.at(4, nodes(2), 1, 10*time.Minute)
	third.at(4, nodes(3), 3, 10*time.Minute)
	_, alike = h.Sensitivities(third.j, third.kind)
	must.Eq(t, before, alike.Points)
	third.at(4, onTwo, 2, 10*time.Minute)
	_, alike = h.Sensitivities(third.j, third.kind)
	must.Len(t, 5, alike.Points)
	ratio, known = migrate.Slowdown(4, onOne, nodes(3), alike)
	must.True(t, known)
	must.InDelta(t, 1.5*1.5, ratio, 0.1)

	other, _ := h.Sensitivities(third.j, "default/other")
	must.Len(t, 3, other.Points)
}

// Two jobs without a common place do not overwrite each other's times.
func TestKind_TimesThatDoNotCompareAreKept(t *testing.T) {
	h := New()
	racks := func(parts, most int) migrate.Crossing {
		return migrate.Crossing{Level: "meta.rack", Domains: 2, Parts: parts, Most: most}
	}
	nodes := func(parts, most int) migrate.Crossing {
		return migrate.Crossing{Level: "node", Domains: parts, Parts: parts, Most: most}
	}
	runs := []*placedRun{newPlacedRun(h, "k"), newPlacedRun(h, "k")}
	for range 2 {
		runs[0].at(8, nodes(2, 4), 1, 10*time.Minute)
		runs[0].at(8, racks(2, 4), 1.5, 10*time.Minute)
		runs[1].at(8, nodes(2, 5), 2, 10*time.Minute)
		runs[1].at(8, racks(3, 4), 3.2, 10*time.Minute)
	}
	_, alike := h.Sensitivities(runs[0].j, "k")
	must.Len(t, 2, alike.Points)
	ratio, known := migrate.Slowdown(8, nodes(2, 4), racks(2, 4), alike)
	must.True(t, known)
	must.InDelta(t, 1.5, ratio, 0.05)
}

// TestKind_TryingEnds moves many jobs of a kind to places where steps may be faster. Each
// job runs only once at each size, so its times can't be compared with others of the same
// size.
func TestKind_TryingEnds(t *testing.T) {
	apart := func(size int) migrate.Crossing {
		return migrate.Crossing{Level: "node", Domains: 2, Parts: 2, Most: size / 2}
	}
	for name, tc := range map[string]struct {
		sizes []int
		slow  float64 // steps apart, as multiples of those together
		most  int     // tries
	}{
		"jobs that grow":                {[]int{2, 4, 8, 16}, 10, 12}, // four jobs
		"jobs that shrink":              {[]int{4, 2}, 10, 4},
		"a place that is a bit slower":  {[]int{2, 4, 8, 16}, 1.4, migrate.EnoughTries},
		"jobs of one size":              {[]int{4}, 10, migrate.EnoughTries},
		"of one far from what is known": {[]int{64}, 10, migrate.EnoughTries},
	} {
		t.Run(name, func(t *testing.T) {
			h := New()
			first := newPlacedRun(h, "k")
			first.at(2, onOne, 1, 3*time.Minute)
			first.at(2, apart(2), 1, 3*time.Minute)
			tries := 0
			for range 2 * migrate.EnoughTries {
				r := newPlacedRun(h, "k")
				for _, size := range tc.sizes {
					own, alike := h.Sensitivities(r.j, "k")
					if hope, _ := migrate.Hopeful(size, onOne, apart(size), own, alike); hope < 0.98 {
						r.at(size, apart(size), tc.slow, 10*time.Minute)
						tries++
					} else {
						r.at(size, onOne, 1, time.Minute)
					}
				}
			}
			must.Between(t, 1, tries, tc.most)
		})
	}
}

// TestJob_TryingEnds resizes a job at random, often before its step time is usable. Such
// times do not displace the times that end its tries.
func TestJob_TryingEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := New()
	r := newPlacedRun(h, "k")
	r.at(2, onOne, 1, 3*time.Minute)
	r.at(2, migrate.Crossing{Level: "node", Domains: 2, Parts: 2, Most: 1}, 1, 3*time.Minute)
	tries := 0
	for range 3000 {
		size := 2 + rng.IntN(31)
		parts := 2 + rng.IntN(size-1)
		to, stay := migrate.Crossing{Level: "node", Domains: parts, Parts: parts, Most: (size + parts - 1) / parts}, 2*time.Minute
		if rng.IntN(4) == 0 {
			stay = 20 * time.Second
		}
		own, alike := h.Sensitivities(r.j, "k")
		if hope, _ := migrate.Hopeful(size, onOne, to, own, alike); hope >= 0.98 {
			to = onOne
		} else {
			tries++
		}
		r.at(size, to, 1, stay)
	}
	must.Between(t, 1, tries, 2*placedLimit)
}

// TestKind_OneSlowSpellEndsNothing: a job may have been slow for another reason.
func TestKind_OneSlowSpellEndsNothing(t *testing.T) {
	apart := func(size int) migrate.Crossing {
		return migrate.Crossing{Level: "node", Domains: 2, Parts: 2, Most: size / 2}
	}
	h := New()
	first := newPlacedRun(h, "k")
	first.at(2, onOne, 1, 3*time.Minute)
	first.at(2, apart(2), 1, 3*time.Minute)
	for n := range 4 {
		own, alike := h.Sensitivities(&Job{}, "k")
		hope, _ := migrate.Hopeful(16, onOne, apart(16), own, alike)
		must.Less(t, 0.98, hope, must.Sprint(n, "jobs had a slow spell"))
		r := newPlacedRun(h, "k")
		r.at(4, onOne, 0.5, 3*time.Minute)
		r.at(8, apart(8), 1, 40*time.Second)
	}
	own, alike := h.Sensitivities(&Job{}, "k")
	hope, _ := migrate.Hopeful(16, onOne, apart(16), own, alike)
	must.Greater(t, 0.98, hope)
}

// A kind with impossible saved times discards them and learns again.
func TestKind_SavedTimesThatCannotBe(t *testing.T) {
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), 1e300} {
		k := &Kind{Placed: []migrate.Point{{Size: 4, Crossing: onTwo, StepTime: bad}, {Size: 4, Crossing: onFour, StepTime: bad}}}
		k.learnRatios([]migrate.Point{{Size: 4, StepTime: 1}, {Size: 4, Crossing: onTwo, StepTime: 1.5}})
		ratio, known := migrate.Slowdown(4, onOne, onTwo, &migrate.Sensitivity{Points: k.Placed})
		must.True(t, known)
		must.Eq(t, 1.5, ratio)
	}
}

// A kind is not saved again unless its ratios change enough.
func TestKind_WaveringRatiosAreNoNews(t *testing.T) {
	h := New()
	r := newPlacedRun(h, "k")
	r.at(4, onOne, 1, 10*time.Minute)
	r.at(4, onTwo, 1.5, 10*time.Minute)
	before, err := json.Marshal(h.Kinds)
	must.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		r.stay(4, 1.5*(1+rng.NormFloat64()/200), time.Minute)
	}
	after, err := json.Marshal(h.Kinds)
	must.NoError(t, err)
	must.Eq(t, string(before), string(after))
}

// TestKind_RatiosStayBounded has jobs of a kind report any times.
func TestKind_RatiosStayBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	h := New()
	for range 2000 {
		j := &Job{}
		for range 1 + rng.IntN(placedLimit) {
			p := Placed{Crossing: migrate.Crossing{Level: fmt.Sprint("meta.", rng.IntN(3)), Domains: rng.IntN(5)}}
			p.Point = speedup.Point{Size: 1 + rng.IntN(9), StepTime: math.Pow(10, 18*rng.Float64()-9), Samples: learnedSteps}
			j.Placed = append(j.Placed, p)
		}
		h.learnPlaced("k", &migrate.Sensitivity{}, j.Sensitivity(), t0)
		must.LessEq(t, kindPlacedLimit, len(h.kind("k", t0).Placed))
		for _, p := range h.Kinds["k"].Placed {
			must.True(t, within(p.StepTime, 1/maxRatio, maxRatio), must.Sprint(p))
		}
	}
}
