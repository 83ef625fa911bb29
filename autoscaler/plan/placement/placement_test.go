// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// nodes makes nodes of one bin each, with that many free slots.
func nodes(slots ...int) (*Capacity, []Place) {
	c := &Capacity{}
	var places []Place
	for _, n := range slots {
		places = append(places, Place{Node: c.AddNode(0, 0, n)})
	}
	return c, places
}

func TestPack(t *testing.T) {
	one, two := Ask{Need: Need{Slots: 1}}, Ask{Need: Need{Slots: 2}}
	for name, tc := range map[string]struct {
		free   []int
		on     []Share // what the job has already
		ask    Ask
		n      int
		shares string
		placed int
	}{
		"where it fits best":                {[]int{8, 3, 4}, nil, one, 3, "[{{1 0} 3}]", 3},
		"the earlier of equal ones":         {[]int{4, 4}, nil, one, 2, "[{{0 0} 2}]", 2},
		"most of it together":               {[]int{2, 4, 3}, nil, one, 6, "[{{1 0} 4} {{0 0} 2}]", 6},
		"as many as fit":                    {[]int{1, 2}, nil, one, 9, "[{{1 0} 2} {{0 0} 1}]", 3},
		"not in pieces of a worker":         {[]int{3, 3, 1}, nil, two, 3, "[{{0 0} 1} {{1 0} 1}]", 2},
		"with least to spare":               {[]int{5, 4}, nil, two, 2, "[{{1 0} 2}]", 2},
		"where the job is, then next to it": {[]int{3, 2, 8}, []Share{{Place{Node: 1}, 2}}, one, 4, "[{{1 0} 4} {{0 0} 2}]", 4},
		"nowhere":                           {[]int{0, -2}, nil, one, 1, "[]", 0},
		"the place that holds all, if late": {[]int{1, 1, 5}, nil, one, 5, "[{{2 0} 5}]", 5},
	} {
		t.Run(name, func(t *testing.T) {
			c, places := nodes(tc.free...)
			shares, placed := c.Pack(tc.on, places, tc.ask, tc.n)
			must.Eq(t, tc.placed, placed)
			must.Eq(t, tc.shares, fmt.Sprint(shares))
		})
	}
}

func TestSpread(t *testing.T) {
	c, places := nodes(2, 4, 3)
	shares, placed := c.Spread(nil, places, Ask{Need: Need{Slots: 1}}, 5)
	must.Eq(t, 5, placed)
	must.Eq(t, "[{{1 0} 3} {{2 0} 1} {{0 0} 1}]", fmt.Sprint(shares))
}

// world has nodes in any state, places on them, and an ask.
type world struct {
	*Capacity
	places []Place
	ask    Ask
}

func drawWorld(t *rapid.T) *world {
	w := &world{Capacity: &Capacity{}}
	for range rapid.IntRange(0, 6).Draw(t, "nodes") {
		var slots []int
		for range rapid.IntRange(1, 3).Draw(t, "bins") {
			slots = append(slots, rapid.IntRange(-2, 8).Draw(t, "slots"))
		}
		n := w.AddNode(rapid.IntRange(-100, 1000).Draw(t, "cpu"), rapid.IntRange(-100, 1000).Draw(t, "memory"), slots...)
		for b := range slots {
			if rapid.IntRange(0, 4).Draw(t, "may go there") > 0 {
				w.places = append(w.places, Place{n, b})
			}
		}
	}
	w.ask = Ask{Need: Need{
		Slots:  rapid.IntRange(1, 3).Draw(t, "slots of one"),
		CPU:    rapid.SampledFrom([]int{0, 100, 300}).Draw(t, "cpu of one"),
		Memory: rapid.SampledFrom([]int{0, 100, 300}).Draw(t, "memory of one"),
	}}
	if rapid.Bool().Draw(t, "apart") {
		w.ask.Apart = map[int]bool{}
	}
	return w
}

// free returns all free resources as text, to compare.
func (w *world) free() string {
	return fmt.Sprint(w.cpu, w.memory, w.slots, slices.Sorted(maps.Keys(w.ask.Apart)))
}

// TestProperty_Shares checks that workers go only to places with room, up to the room
// there. Giving the room back restores the capacity.
func TestProperty_Shares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		n := rapid.IntRange(0, 12).Draw(t, "workers")
		put := rapid.SampledFrom([]func([]Share, []Place, Ask, int) ([]Share, int){w.Pack, w.Spread}).Draw(t, "how")
		before, negative := w.free(), 0
		for _, at := range w.places {
			if w.Free(at) < 0 {
				negative++
			}
		}
		room := w.Room(w.places, w.ask, n)
		shares, placed := put(nil, w.places, w.ask, n)
		if placed != room {
			t.Fatalf("%d found room, and there was room for %d", placed, room)
		}
		if more := w.Room(w.places, w.ask, 1); placed < n && more > 0 {
			t.Fatalf("%d of %d found room, and there is room for more", placed, n)
		}
		sum, at := 0, map[Place]bool{}
		for _, s := range shares {
			if at[s.Place] || s.Workers < 1 || !slices.Contains(w.places, s.Place) {
				t.Fatalf("shares %v at places %v", shares, w.places)
			}
			at[s.Place] = true
			sum += s.Workers
			if w.ask.Apart != nil && s.Workers > 1 {
				t.Fatalf("%d workers on a node that are to be apart", s.Workers)
			}
			if w.Free(s.Place) < 0 || w.ask.CPU > 0 && w.cpu[s.Node] < 0 || w.ask.Memory > 0 && w.memory[s.Node] < 0 {
				t.Fatalf("more given out than is free at %v", s)
			}
		}
		if sum != placed {
			t.Fatalf("shares of %d workers, %d placed", sum, placed)
		}
		if nodes := map[int]bool{}; w.ask.Apart != nil {
			for _, s := range shares {
				if nodes[s.Node] {
					t.Fatalf("two workers on node %d that are to be apart", s.Node)
				}
				nodes[s.Node] = true
			}
		}
		w.GiveBack(shares, w.ask)
		if w.free() != before {
			t.Fatalf("free is %s after all was given back, was %s", w.free(), before)
		}
	})
}

// TestProperty_TogetherWhereItFits checks that workers that fit at one place are never
// spread over two.
func TestProperty_TogetherWhereItFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		n := rapid.IntRange(1, 8).Draw(t, "workers")
		holds := slices.ContainsFunc(w.places, func(at Place) bool { return w.fits(at, w.ask) >= n })
		shares, _ := w.Pack(nil, w.places, w.ask, n)
		if holds && len(shares) != 1 {
			t.Fatalf("%d workers are at %v, and one place holds them", n, shares)
		}
	})
}
