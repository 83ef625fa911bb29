// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestPlan(t *testing.T) {
	seen := map[kind]int{}
	for seed := range uint64(50) {
		p, same := newPlan(seed, 4, seed%2 == 0), newPlan(seed, 4, seed%2 == 0)
		for range 100 {
			a := p.next()
			must.Eq(t, a.String(), same.next().String())
			seen[a.kind]++
			must.Between(t, 1, slots(p.hosts), 4)
			if a.kind == rehost {
				must.Eq(t, lines(p.hosts), lines(a.hosts))
				must.True(t, !a.spare || a.hosts[0].name == names[0])
			}
		}
	}
	must.MapLen(t, 4, seen)
	must.NotEq(t, newPlan(1, 4, false).next().pause, newPlan(2, 4, false).next().pause)
}
