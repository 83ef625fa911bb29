// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// cluster returns movers on nodes, from one row for each with its workers by node.
func cluster(free []int, rows ...[]int) []Mover {
	var out []Mover
	for _, row := range rows {
		m := Mover{Job: Job{Slots: 1, Min: 1, Max: 16, Remaining: 3600, Gap: 1}}
		for n, held := range row {
			m.Sites = append(m.Sites, placement.Site{Path: []int{n}, Held: held, Room: free[n]})
			m.Pools = append(m.Pools, n)
		}
		m.Slowdown = perRack(m.Sites, 0.5)
		out = append(out, m)
	}
	return out
}

func TestRearrange(t *testing.T) {
	indifferent := func(m *Mover) { m.Slowdown = func([]int) float64 { return 1 } }
	for name, tc := range map[string]struct {
		free  []int
		rows  [][]int
		edit  map[int]func(*Mover)
		moves string // counts by mover
	}{
		"into free slots": {
			[]int{2, 2}, [][]int{{2, 2}}, nil, "map[0:[4 0]]",
		},
		"two that are in each other's way": {
			[]int{0, 0}, [][]int{{2, 2}, {2, 2}}, nil, "map[0:[4 0] 1:[0 4]]",
		},
		"one that does not care makes room": {
			[]int{0, 0, 2}, [][]int{{2, 2, 0}, {2, 0, 0}}, map[int]func(*Mover){1: indifferent}, "map[0:[4 0 0] 1:[0 2 0]]",
		},
		"all are together": {
			[]int{0, 0}, [][]int{{4, 0}, {0, 4}}, nil, "map[]",
		},
		"no one cares": {
			[]int{0, 0}, [][]int{{2, 2}, {2, 2}}, map[int]func(*Mover){0: indifferent, 1: indifferent}, "map[]",
		},
		"faster apart": {
			[]int{0, 4}, [][]int{{4, 0}}, map[int]func(*Mover){0: func(m *Mover) {
				m.Slowdown = func(counts []int) float64 {
					if slices.Max(counts) == 4 {
						return 1
					}
					return 0.5
				}
			}}, "map[0:[3 1]]",
		},
		"soon over": {
			[]int{0, 0}, [][]int{{2, 2}, {2, 2}}, map[int]func(*Mover){
				0: func(m *Mover) { m.Remaining = 20 }, 1: func(m *Mover) { m.Remaining = 20 },
			}, "map[]",
		},
		"workers in the way that must stay": {
			[]int{0, 0}, [][]int{{2, 2}, {1, 1}}, map[int]func(*Mover){1: func(m *Mover) {
				m.Sites[0].Fixed, m.Sites[1].Fixed = 1, 1
			}}, "map[]",
		},
		"neither can shrink, and nothing is free": {
			[]int{0, 0}, [][]int{{2, 2}, {2, 2}}, map[int]func(*Mover){
				0: func(m *Mover) { m.Min = 4 }, 1: func(m *Mover) { m.Min = 4 },
			}, "map[]",
		},
		"one of them can shrink": {
			[]int{0, 0}, [][]int{{2, 2}, {2, 2}}, map[int]func(*Mover){1: func(m *Mover) { m.Min = 4 }}, "map[0:[4 0] 1:[0 4]]",
		},
		"a size that it may not have": {
			[]int{0, 0}, [][]int{{2, 2}, {2, 2}}, map[int]func(*Mover){1: func(m *Mover) { m.Sizes = sizes.List(4) }}, "map[]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			movers := cluster(tc.free, tc.rows...)
			for i, edit := range tc.edit {
				edit(&movers[i])
			}
			got := map[int][]int{}
			moves, _ := Rearrange(movers, tc.free, DefaultOptions())
			for i, m := range moves {
				got[i] = m.Counts
			}
			must.Eq(t, tc.moves, fmt.Sprint(got))
		})
	}
}

// TestProperty_Rearrange checks, for any cluster: sizes do not change, and slots suffice.
// Only workers that may move do so, and only to places where they may go. The gain exceeds
// the cost. The caller's sites are not changed. Repeated calls end with no more moves.
func TestProperty_Rearrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		movers, free := drawMovers(t)
		for round := 0; ; round++ {
			if round == 50 {
				t.Fatal("jobs still move after 50 rounds")
			}
			before := fmt.Sprint(movers, free)
			moves, _ := Rearrange(movers, free, DefaultOptions())
			must.Eq(t, before, fmt.Sprint(movers, free))
			if len(moves) == 0 {
				return
			}
			checkMoves(t, movers, moves)
			apply(movers, free, moves)
			for _, n := range free {
				must.GreaterEq(t, 0, n)
			}
		}
	})
}

func drawMovers(t *rapid.T) (movers []Mover, free []int) {
	nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
	free = rapid.SliceOfN(rapid.IntRange(0, 3), nodes, nodes).Draw(t, "free")
	var rows [][]int
	for range rapid.IntRange(1, 4).Draw(t, "jobs") {
		rows = append(rows, rapid.SliceOfN(rapid.IntRange(0, 3), nodes, nodes).Draw(t, "held"))
	}
	movers = cluster(free, rows...)
	for i := range movers {
		m := &movers[i]
		m.Min = rapid.IntRange(1, 4).Draw(t, "min")
		m.Remaining = rapid.Float64Range(0, 4000).Draw(t, "left")
		m.Slowdown = perRack(m.Sites, rapid.Float64Range(-0.15, 0.9).Draw(t, "crossing"))
		if rapid.IntRange(0, 3).Draw(t, "may not grow") == 0 {
			k := rapid.IntRange(0, nodes-1).Draw(t, "there")
			m.Pools[k], m.Sites[k].Room = -1, rapid.IntRange(0, 3).Draw(t, "whatever room it says")
		}
		if rapid.Bool().Draw(t, "stay") {
			m.Sites[0].Fixed = min(1, m.Sites[0].Held)
		}
	}
	return movers, free
}

func checkMoves(t *rapid.T, movers []Mover, moves map[int]Move) {
	gain := 0.0
	for _, i := range slices.Sorted(maps.Keys(moves)) {
		m, move := &movers[i], moves[i]
		gain += move.Gain - (1+DefaultOptions().Hysteresis)*move.Cost
		sum := 0
		for s, n := range move.Counts {
			must.GreaterEq(t, m.Sites[s].Fixed, n)
			if m.Pools[s] < 0 && n > m.Sites[s].Held {
				t.Fatalf("%d workers come to a site that may have no more", n-m.Sites[s].Held)
			}
			sum += n
		}
		must.Eq(t, m.size(), sum)
	}
	must.Greater(t, 0, gain)
}

// apply makes moves: it changes the jobs' sites, and their remaining time by the slowdown.
func apply(movers []Mover, free []int, moves map[int]Move) {
	for i, move := range moves {
		m := &movers[i]
		was := m.Slowdown
		m.Slowdown = func(counts []int) float64 { return was(counts) / move.Slowdown }
		m.Remaining *= move.Slowdown
		for s, n := range move.Counts {
			free[s] += m.Sites[s].Held - n
			m.Sites[s].Held = n
		}
	}
	for i := range movers {
		for s := range movers[i].Sites {
			movers[i].Sites[s].Room = free[s]
		}
	}
}

// hostile returns jobs with a worker in each of a number of full racks. Their steps seem
// faster in fewer racks, so there is always more to look at. asked counts the calls of
// Slowdown by job.
func hostile(racks, jobs int) (movers []Mover, free, asked []int) {
	free, asked = make([]int, racks), make([]int, jobs)
	for i := range jobs {
		row := make([]int, racks)
		for r := range row {
			row[r] = 1
		}
		m := cluster(free, row)[0]
		m.Max, m.Remaining = 2*racks, 36000
		m.Slowdown = func(counts []int) float64 {
			asked[i]++
			return 1 - float64(slices.Max(counts)-1)/20
		}
		movers = append(movers, m)
	}
	return movers, free, asked
}

func TestRearrange_TakesNoMoreThanItsBudget(t *testing.T) {
	for _, tc := range []struct{ racks, jobs, budget int }{
		{64, 16, 1_000_000}, {16, 32, 1_000_000}, {300, 100, 10_000_000}, {4, 2, 40}, {256, 1, 0},
	} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			o := DefaultOptions()
			o.Budget = tc.budget
			movers, free, asked := hostile(tc.racks, tc.jobs)
			moves, spent := Rearrange(movers, free, o)
			calls := 0
			for _, n := range asked {
				calls += n
			}
			one := price(tc.racks) // evaluation, by which it may be passed
			must.LessEq(t, tc.budget+one, spent)
			must.LessEq(t, tc.budget/one+1, calls)
			must.Eq(t, tc.budget >= 1_000_000, len(moves) > 0, must.Sprint("what was found until then counts"))
			again, _ := Rearrange(movers, free, o)
			must.Eq(t, moves, again)
		})
	}
}

// Although one job uses up the budget, each job and each of its racks is examined sooner or
// later.
func TestRearrange_AllHaveTheirTurn(t *testing.T) {
	const racks, jobs = 40, 6
	movers, free, asked := hostile(racks, jobs)
	into := map[int]bool{}
	for i := range movers {
		was := movers[i].Slowdown
		movers[i].Slowdown = func(counts []int) float64 {
			into[slices.Index(counts, slices.Max(counts))] = true
			return was(counts)
		}
	}
	o := DefaultOptions()
	o.Budget = 40_000
	for o.Offset = range jobs * racks {
		Rearrange(movers, free, o)
	}
	must.SliceNotContains(t, asked, 0)
	must.Eq(t, racks, len(into))
}
