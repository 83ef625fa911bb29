// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"math"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// racks returns the sites of a job, one per rack, from pairs of workers and room.
func racks(pairs ...[2]int) []placement.Site {
	var out []placement.Site
	for i, p := range pairs {
		out = append(out, placement.Site{Path: []int{i}, Held: p[0], Room: p[1]})
	}
	return out
}

// perRack returns the slowdown of a job whose steps take longer by more for each rack
// beyond the first.
func perRack(sites []placement.Site, more float64) func([]int) float64 {
	time := func(n func(int) int) float64 {
		t := 1 - more
		for i := range sites {
			if n(i) > 0 {
				t += more
			}
		}
		return t
	}
	now := time(func(i int) int { return sites[i].Held })
	return func(counts []int) float64 { return time(func(i int) int { return counts[i] }) / now }
}

func job(sites []placement.Site, edit ...func(*Job)) *Job {
	j := &Job{Sites: sites, Slots: 1, Min: 1, Max: 64, Remaining: 3600, Gap: 1, Slowdown: perRack(sites, 0.5)}
	for _, e := range edit {
		e(j)
	}
	return j
}

// alone returns the move of a job that shares its racks with no other mover.
func alone(j *Job) (Move, bool) {
	m := Mover{Job: *j}
	var free []int
	for i := range j.Sites {
		m.Pools, free = append(m.Pools, i), append(free, j.Sites[i].Room*j.Slots)
	}
	moves, _ := Rearrange([]Mover{m}, free, DefaultOptions())
	move, ok := moves[0]
	return move, ok
}

func TestRearrange_OneJob(t *testing.T) {
	for name, tc := range map[string]struct {
		job       *Job
		counts    []int // nil is no move
		workers   int
		growFirst bool
	}{
		"two racks to one":       {job(racks([2]int{2, 2}, [2]int{2, 0})), []int{4, 0}, 2, true},
		"the fewer workers move": {job(racks([2]int{1, 8}, [2]int{3, 1})), []int{0, 4}, 1, true},
		"to a third rack":        {job(racks([2]int{2, 1}, [2]int{2, 1}, [2]int{0, 4})), []int{0, 0, 4}, 4, true},
		"three racks to two":     {job(racks([2]int{2, 1}, [2]int{2, 0}, [2]int{1, 0})), []int{3, 2, 0}, 1, true},
		"no room":                {job(racks([2]int{2, 1}, [2]int{2, 1})), nil, 0, false},
		"is in one rack":         {job(racks([2]int{2, 1}, [2]int{0, 4})), nil, 0, false},
		"soon over":              {job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Remaining = 5 }), nil, 0, false},
		"changes cost too much":  {job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Gap = 1000 }), nil, 0, false},
		"does not care":          {job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Slowdown = perRack(j.Sites, 0) }), nil, 0, false},
		"nothing known":          {job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Slowdown = nil }), nil, 0, false},
		"at its maximum it shrinks first": {
			job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Max = 5 }), []int{4, 0}, 2, false},
		"no size in between": {
			job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Sizes = sizes.List(1, 4, 8) }), nil, 0, false},
		"a size below": {
			job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Sizes = sizes.List(2, 4, 8) }), []int{4, 0}, 2, false},
		"a job of one size": {
			job(racks([2]int{2, 2}, [2]int{2, 0}), func(j *Job) { j.Min, j.Max = 4, 4 }), nil, 0, false},
		"workers that must stay": {
			job([]placement.Site{{Path: []int{0}, Held: 2, Fixed: 1, Room: 2}, {Path: []int{1}, Held: 2, Room: 2}}), []int{4, 0}, 2, true},
		"on both sides": {
			job([]placement.Site{{Path: []int{0}, Held: 2, Fixed: 1, Room: 2}, {Path: []int{1}, Held: 2, Fixed: 1, Room: 2}}), nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, ok := alone(tc.job)
			must.Eq(t, tc.counts != nil, ok)
			if ok {
				must.Eq(t, tc.counts, m.Counts)
				must.Eq(t, tc.workers, m.Workers)
				must.Eq(t, tc.growFirst, m.GrowFirst)
				must.Greater(t, m.Cost, m.Gain)
			}
		})
	}
}

// Steps of a ring of 4 take 1.5 times as long on two racks as on one. So the job gains 20
// minutes of its hour. The cost is two changes of a second and ten seconds of two slots.
func TestRearrange_Price(t *testing.T) {
	m, ok := alone(job(racks([2]int{2, 2}, [2]int{2, 0})))
	must.True(t, ok)
	must.InDelta(t, 1/1.5, m.Slowdown, 1e-9)
	must.InDelta(t, 1200*4, m.Gain, 1e-6)
	must.InDelta(t, 2*1*4+2*10, m.Cost, 1e-9)
}

// TestClear draws racks of slots: rows are jobs, columns are racks. Each rack has a pool
// with the rack's number.
func TestClear(t *testing.T) {
	mover := func(edit func(*Mover), pairs ...[2]int) Mover {
		m := Mover{Job: *job(racks(pairs...), func(j *Job) { j.Slowdown = nil })}
		for p := range pairs {
			m.Pools = append(m.Pools, p)
		}
		if edit != nil {
			edit(&m)
		}
		return m
	}
	gang := Gang{Workers: 8, Slots: 1, Wait: 3600}
	for name, tc := range map[string]struct {
		gang    Gang
		targets []Target
		movers  []Mover
		free    []int
		target  int // -1 is none
		counts  map[int][]int
	}{
		"one worker": {gang, []Target{{1, []int{0}}}, []Mover{mover(nil, [2]int{1, 0}, [2]int{0, 1})}, []int{7, 1},
			0, map[int][]int{0: {0, 1}}},
		"the target with fewest": {gang, []Target{{2, []int{0}}, {1, []int{1}}},
			[]Mover{mover(nil, [2]int{2, 7}, [2]int{0, 7}), mover(nil, [2]int{0, 6}, [2]int{1, 0})}, []int{6, 7},
			1, map[int][]int{1: {1, 0}}},
		"small jobs move together": {gang, []Target{{3, []int{0}}},
			[]Mover{mover(nil, [2]int{1, 0}, [2]int{0, 3}), mover(nil, [2]int{1, 0}, [2]int{0, 3}), mover(nil, [2]int{1, 0}, [2]int{0, 3})}, []int{5, 3},
			0, map[int][]int{0: {0, 1}, 1: {0, 1}, 2: {0, 1}}},
		"who can only go to one rack goes there": {gang, []Target{{2, []int{0}}},
			[]Mover{mover(nil, [2]int{1, 0}, [2]int{0, 1}, [2]int{0, 1}), mover(nil, [2]int{1, 0}, [2]int{0, 1}, [2]int{0, 0})}, []int{6, 1, 1},
			0, map[int][]int{0: {0, 0, 1}, 1: {0, 1, 0}}},
		"rather where the job is": {gang, []Target{{1, []int{0}}},
			[]Mover{mover(nil, [2]int{1, 0}, [2]int{0, 1}, [2]int{1, 1})}, []int{7, 1, 1},
			0, map[int][]int{0: {0, 0, 2}}},
		"no room": {gang, []Target{{1, []int{0}}}, []Mover{mover(nil, [2]int{1, 0}, [2]int{0, 0})}, []int{7, 0}, -1, nil},
		"a job of one size stays": {gang, []Target{{1, []int{0}}},
			[]Mover{mover(func(m *Mover) { m.Min, m.Max = 1, 1 }, [2]int{1, 0}, [2]int{0, 1})}, []int{7, 1}, -1, nil},
		"another moves in its place": {gang, []Target{{1, []int{0}}},
			[]Mover{mover(func(m *Mover) { m.Min, m.Max = 1, 1 }, [2]int{1, 0}, [2]int{0, 1}), mover(nil, [2]int{2, 0}, [2]int{0, 1})}, []int{7, 1},
			0, map[int][]int{1: {1, 1}}},
		"a job that must not cross moves as a whole": {gang, []Target{{1, []int{0}}},
			[]Mover{mover(func(m *Mover) { m.Rule.Within = 1 }, [2]int{2, 0}, [2]int{0, 2})}, []int{7, 2}, -1, nil},
		"it has to": {gang, []Target{{2, []int{0}}},
			[]Mover{mover(func(m *Mover) { m.Rule.Within = 1 }, [2]int{2, 0}, [2]int{0, 2})}, []int{6, 2},
			0, map[int][]int{0: {0, 2}}},
		"the gang would soon start": {Gang{8, 1, 1}, []Target{{1, []int{0}}}, []Mover{mover(nil, [2]int{1, 0}, [2]int{0, 1})}, []int{7, 1}, -1, nil},
		"a job that would lose more": {gang, []Target{{1, []int{0}}},
			[]Mover{mover(func(m *Mover) { m.Remaining, m.Slowdown = 1e6, perRack(m.Sites, 1) }, [2]int{2, 0}, [2]int{0, 1})}, []int{7, 1}, -1, nil},
		"workers of two slots": {gang, []Target{{3, []int{0}}},
			[]Mover{mover(func(m *Mover) { m.Slots = 2 }, [2]int{2, 0}, [2]int{0, 2})}, []int{5, 4},
			0, map[int][]int{0: {0, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := Clear(tc.gang, tc.targets, tc.movers, tc.free, DefaultOptions())
			must.Eq(t, tc.target >= 0, ok)
			if ok {
				must.Eq(t, tc.target, c.Target)
				got := map[int][]int{}
				for i, m := range c.Moves {
					got[i] = m.Counts
				}
				must.Eq(t, tc.counts, got)
			}
		})
	}
}

// TestProperty_ClearMovesTheFewest compares with all ways to move workers of one
// slot out of a rack.
func TestProperty_ClearMovesTheFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.IntRange(0, 3), 2, 4).Draw(t, "free")
		missing := rapid.IntRange(1, 5).Draw(t, "missing")
		var movers []Mover
		for range rapid.IntRange(1, 3).Draw(t, "jobs") {
			m := Mover{Job: Job{Slots: 1, Min: 1, Max: 64, Remaining: 10}}
			for p := range free {
				m.Sites = append(m.Sites, placement.Site{Path: []int{p}, Held: rapid.IntRange(0, 2).Draw(t, "held"), Room: min(free[p], rapid.IntRange(0, 3).Draw(t, "room"))})
				m.Pools = append(m.Pools, p)
			}
			movers = append(movers, m)
		}
		most := mostOut(movers, free, 0)
		c, ok := Clear(Gang{8, 1, 1e9}, []Target{{missing, []int{0}}}, movers, free, DefaultOptions())
		if ok != (most >= missing) {
			t.Fatalf("%v, and %d of %d can leave", ok, most, missing)
		}
		if !ok {
			return
		}
		must.Eq(t, missing, c.Workers())
		for i, m := range c.Moves {
			before, after := 0, 0
			for s, n := range m.Counts {
				must.GreaterEq(t, 0, n)
				must.LessEq(t, movers[i].Sites[s].Held+movers[i].Sites[s].Room, n)
				free[s] -= max(0, n-movers[i].Sites[s].Held)
				before, after = before+movers[i].Sites[s].Held, after+n
			}
			must.Eq(t, before, after)
		}
		for p, n := range free {
			must.GreaterEq(t, 0, n, must.Sprintf("rack %d", p))
		}
	})
}

// mostOut returns the largest number of workers that can leave rack 0, by exhaustive search.
func mostOut(movers []Mover, free []int, from int) int {
	best := 0
	for i := from; i < len(movers); i++ {
		if movers[i].Sites[0].Held == 0 {
			continue
		}
		for p := 1; p < len(free); p++ {
			if free[p] == 0 || movers[i].Sites[p].Room == 0 {
				continue
			}
			free[p]--
			movers[i].Sites[p].Room--
			movers[i].Sites[0].Held--
			best = max(best, 1+mostOut(movers, free, i))
			free[p]++
			movers[i].Sites[p].Room++
			movers[i].Sites[0].Held++
		}
	}
	return best
}

// TestProperty_MovesEnd makes all decided moves, one after the other, on racks that nothing
// else changes. The moves end, each gains more than it costs, and no rack ever has more
// workers than slots.
func TestProperty_MovesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.IntRange(0, 6), 2, 5).Draw(t, "free")
		held := make([][]int, rapid.IntRange(1, 5).Draw(t, "jobs"))
		more := make([]float64, len(held))
		for j := range held {
			held[j] = rapid.SliceOfN(rapid.IntRange(0, 3), len(free), len(free)).Draw(t, "workers")
			more[j] = rapid.SampledFrom([]float64{0, 0.1, 0.5, 2}).Draw(t, "slower by rack")
		}
		gang := rapid.IntRange(2, 8).Draw(t, "gang")
		waits := rapid.Bool().Draw(t, "waits")
		at := func(j int) *Job {
			var sites []placement.Site
			for p, n := range held[j] {
				sites = append(sites, placement.Site{Path: []int{p}, Held: n, Room: free[p]})
			}
			return job(sites, func(job *Job) { job.Slowdown = perRack(sites, more[j]) })
		}
		apply := func(j int, m Move) {
			if !(m.Gain > m.Cost) && !waits {
				t.Fatalf("%+v is not worth it", m)
			}
			for p, n := range m.Counts {
				free[p] -= n - held[j][p]
				held[j][p] = n
				if free[p] < 0 {
					t.Fatalf("rack %d has %d free after %+v", p, free[p], m)
				}
			}
		}
		for round := 0; ; round++ {
			if round > 200 {
				t.Fatal("the moves do not end")
			}
			changed := false
			for j := range held {
				if m, ok := alone(at(j)); ok {
					apply(j, m)
					changed = true
				}
			}
			if waits {
				changed = clearFor(gang, held, free, at, apply) || changed
				for p := range free {
					if free[p] >= gang {
						free[p] -= gang
						waits, changed = false, true
						break
					}
				}
			}
			if !changed {
				return
			}
		}
	})
}

// clearFor makes the moves that let a gang start in one rack.
func clearFor(gang int, held [][]int, free []int, at func(int) *Job, apply func(int, Move)) bool {
	var targets []Target
	for p := range free {
		if free[p] >= gang {
			return false // it starts
		}
		targets = append(targets, Target{gang - free[p], []int{p}})
	}
	var movers []Mover
	for j := range held {
		m := Mover{Job: *at(j)}
		for p := range free {
			m.Pools = append(m.Pools, p)
		}
		movers = append(movers, m)
	}
	c, ok := Clear(Gang{gang, 1, 3600}, targets, movers, free, DefaultOptions())
	for j, m := range c.Moves {
		apply(j, m)
	}
	return ok
}

func TestSensitivity(t *testing.T) {
	one, two, three := Crossing{}, Crossing{Level: "meta.rack", Domains: 2, Parts: 2, Most: 2}, Crossing{Level: "meta.rack", Domains: 3, Parts: 3, Most: 2}
	s := &Sensitivity{}
	_, known := Slowdown(4, one, two, s)
	must.False(t, known)
	s.Learn(Point{Size: 4, Crossing: one, StepTime: 1})
	_, known = Slowdown(4, one, two, s)
	must.False(t, known)
	s.Learn(Point{Size: 4, Crossing: two, StepTime: 9})
	s.Learn(Point{Size: 4, Crossing: two, StepTime: 1.31}) // the newer one counts
	s.Learn(Point{Size: 0, Crossing: two, StepTime: 1})
	s.Learn(Point{Size: 4, Crossing: three, StepTime: 0})
	must.Len(t, 2, s.Points)
	r, known := Slowdown(4, one, two, s)
	must.True(t, known)
	must.InDelta(t, 1.31, r, 1e-9)
	r, _ = Slowdown(4, two, one, s)
	must.InDelta(t, 1/1.31, r, 1e-9)
	_, known = Slowdown(4, one, Crossing{Level: "meta.block", Domains: 2}, s)
	must.False(t, known, must.Sprint("a level that was never crossed"))

	var kind Sensitivity
	s.Learn(Point{Size: 8, Crossing: one, StepTime: 1})
	s.Learn(Point{Size: 8, Crossing: two, StepTime: 2.62})
	kind.Share(s)
	r, known = Slowdown(8, one, two, &kind)
	must.True(t, known)
	must.InDelta(t, 2.62, r, 1e-9)
	kind.Share(&Sensitivity{Points: []Point{{Size: 2, Crossing: two, StepTime: 5}}}) // alone it has no ratio
	must.Len(t, 4, kind.Points)
}

// The groups are bound to whole racks. Nomad's placement inside a rack is not known in
// advance, but it is known for the measured times.
func TestSensitivity_InsideIsUnknown(t *testing.T) {
	racks := func(parts, most int) Crossing {
		return Crossing{Level: "meta.rack", Domains: 2, Parts: parts, Most: most}
	}
	s := &Sensitivity{Points: []Point{
		{Size: 4, StepTime: 1}, {Size: 4, Crossing: racks(2, 2), StepTime: 2}, {Size: 4, Crossing: racks(4, 1), StepTime: 8},
	}}
	r, known := Slowdown(4, Crossing{}, racks(0, 0), s)
	must.True(t, known)
	must.InDelta(t, 4, r, 1e-9)
	r, _ = Slowdown(4, racks(4, 1), racks(0, 0), s)
	must.Eq(t, 1, r, must.Sprint("they may well stay as they are"))
	must.Eq(t, []Point{{Size: 4, StepTime: 1}, {Size: 4, Crossing: racks(0, 0), StepTime: 4}}, rounded(s.Outermost()))
}

func rounded(points []Point) []Point {
	for i := range points {
		points[i].StepTime = math.Round(points[i].StepTime*1e9) / 1e9
	}
	return points
}

// The runs are of one kind. Each was measured with some crossings only, and has other
// times.
func TestSensitivity_Share(t *testing.T) {
	node, rack := Crossing{Level: "node", Domains: 2}, Crossing{Level: "meta.rack", Domains: 2}
	run := func(times map[Crossing]float64) *Sensitivity {
		s := &Sensitivity{}
		for _, c := range []Crossing{{}, node, rack} {
			if v := times[c]; v > 0 {
				s.Learn(Point{Size: 4, Crossing: c, StepTime: v})
			}
		}
		return s
	}
	for name, tc := range map[string]struct {
		runs     []*Sensitivity
		from, to Crossing
		want     float64 // 0 is unknown
	}{
		"one run":          {[]*Sensitivity{run(map[Crossing]float64{{}: 2, node: 3})}, Crossing{}, node, 1.5},
		"never together":   {[]*Sensitivity{run(map[Crossing]float64{node: 3, rack: 6})}, node, rack, 2},
		"a chain of runs":  {[]*Sensitivity{run(map[Crossing]float64{{}: 2, node: 3}), run(map[Crossing]float64{node: 30, rack: 60})}, Crossing{}, rack, 3},
		"the mean of runs": {[]*Sensitivity{run(map[Crossing]float64{{}: 1, node: 4}), run(map[Crossing]float64{{}: 1, node: 1})}, Crossing{}, node, 2},
		"alone it has no ratio": {
			[]*Sensitivity{run(map[Crossing]float64{{}: 2}), run(map[Crossing]float64{node: 3})}, Crossing{}, node, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var kind Sensitivity
			for _, r := range tc.runs {
				kind.Share(r)
			}
			got, known := Slowdown(4, tc.from, tc.to, &kind)
			must.Eq(t, tc.want > 0, known)
			if known {
				must.InDelta(t, tc.want, got, 1e-9)
			}
		})
	}
}

// Measurements at the same size take precedence over estimates from other sizes, and the
// job's own over those of its kind.
func TestSlowdown(t *testing.T) {
	two := Crossing{Level: "node", Domains: 2, Parts: 2, Most: 2}
	known := func(size int, times float64) *Sensitivity {
		return &Sensitivity{Points: []Point{{Size: size, StepTime: 1}, {Size: size, Crossing: two, StepTime: times}}}
	}
	for name, tc := range map[string]struct {
		of       []*Sensitivity
		from, to float64
	}{
		"the job":                     {[]*Sensitivity{known(4, 2), known(4, 3)}, 2, 2},
		"the kind, at this size":      {[]*Sensitivity{known(2, 2), known(4, 3)}, 3, 3},
		"from other sizes, with care": {[]*Sensitivity{known(2, 2), known(8, 3)}, 1.5, 3},
		"from one, with more care":    {[]*Sensitivity{{}, known(8, 3)}, 1.2, 3},
		"from afar, with even more":   {[]*Sensitivity{{}, known(4096, 3)}, 1, 1.1},
		"nothing":                     {[]*Sensitivity{{}, {}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, ok := Slowdown(4, Crossing{}, two, tc.of...)
			must.Between(t, tc.from, r, tc.to)
			must.Eq(t, name != "nothing", ok)
		})
	}
}
