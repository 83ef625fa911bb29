// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"
)

// Jobs of many namespaces are spread over 30 full racks, and claim that they would be
// faster anywhere else. The plan examines each of them within one budget, and the last
// namespace's job still moves.
func TestMake_NamespacesShareWhatAPlanMayLookAt(t *testing.T) {
	const racks, namespaces, budget = 30, 9, 100_000
	slots := append(slices.Repeat([]int{namespaces}, racks), 4, 4)
	c := nodes(slots...)
	asked := make([]int, namespaces)
	var wants []Want
	for i := range namespaces {
		c.inRacks(fmt.Sprint("wild", i), movable(0, func(j *Job) {
			j.Key.Namespace = strconv.Itoa(i)
			j.Mobility.Slowdown = func([]int) float64 {
				asked[i]++
				return 0.1
			}
		}), slices.Repeat([]int{1}, racks)...)
		wants = append(wants, Want{Count: racks})
	}
	c.inRacks("last", movable(0.5, func(j *Job) { j.Key.Namespace = "z" }), append(make([]int, racks), 2, 2)...)
	wants = append(wants, Want{Count: 4})
	calls := func(budget int) (n int) {
		clear(asked)
		o := DefaultOptions()
		o.Migrate.Budget = budget
		must.Eq(t, "last 4→6 migrate r30:2→4", Make(c, wants, now, o).drawing())
		for _, k := range asked {
			n += k
		}
		return n
	}
	const least = budget / racks // what an evaluation takes is more than a look at each site
	must.Greater(t, least, calls(DefaultOptions().Migrate.Budget))
	must.Less(t, least, calls(budget))
	must.SliceNotContains(t, asked, 0)
}
