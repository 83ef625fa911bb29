// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"math/rand/v2"
	"testing"

	"github.com/shoenig/test/must"
)

// history returns the usages of a run: of the launcher, of an old trainer that is replaced
// now and then, and of others that are as young as possible. Each has additional
// descriptors and bytes in proportion to its age, as if it leaked them.
func history(changes int, descriptors, memory float64) growth {
	rnd := rand.New(rand.NewPCG(1, 0))
	var g growth
	add := func(r role, age, ranks int, memoryBase float64) {
		g.samples = append(g.samples, usage{
			Role: r, Age: age, Ranks: ranks,
			Descriptors: 16 + 8*ranks + rnd.IntN(5) + int(descriptors*float64(age)),
			Memory:      int(memoryBase + rnd.Float64()*2e6 + memory*float64(age)),
		})
	}
	for n := 10; n <= changes; n += 10 {
		ranks := 1 + rnd.IntN(4)
		add(launcher, n, ranks, 33e6)
		add(trainer, 1+n%60*2/3, ranks, 203e6) // in two rings of three changes
		for range ranks - 1 {
			add(trainer, 1+rnd.IntN(3), ranks, 201e6)
		}
	}
	return g
}

func TestGrowth(t *testing.T) {
	for _, changes := range []int{40, 100, 1000} {
		flat := history(changes, 0, 0)
		must.NoError(t, flat.check())
	}
	must.NoError(t, (&growth{}).check())

	// One descriptor a change, or a ring.
	for _, changes := range []int{100, 1000} {
		leak := history(changes, 1, 0)
		err := leak.check()
		must.ErrorContains(t, err, "the launcher grows")
		must.ErrorContains(t, err, "the trainer grows")
	}
	// One in three.
	leak := history(1000, 1./3, 0)
	must.ErrorContains(t, leak.check(), "after each ring")

	// A copy of a small state for each ring.
	leak = history(1000, 0, 400e3)
	must.ErrorContains(t, leak.check(), "MB, +0.")
	must.StrContains(t, leak.report(), "launcher: 237.1 MB, +0.400 after each change")

	// Much at once.
	peak := growth{samples: []usage{{Role: launcher, Age: 3, Ranks: 2, Descriptors: 200}}}
	must.ErrorContains(t, peak.check(), "the launcher of 2 ranks has 200 descriptors")
}
