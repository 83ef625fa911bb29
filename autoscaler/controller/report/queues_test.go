// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// TestAddUse checks what queues use: with what those inside them use, and what of it is
// borrowed. Each worker has 3 slots.
func TestAddUse(t *testing.T) {
	jobs := []string{"x/1 a 50 1", "x/2 inner 50 2", "y/3 y 50 3", "x/4 inner 50 4"}
	for name, tc := range map[string]struct {
		pool string
		want []api.QueueUse
	}{
		"divided": {
			"queue \"a\" {\n guarantee = 7\n queue \"inner\" { guarantee = 2 }\n}\nqueue \"*\" { limit = 4 }",
			[]api.QueueUse{{Queue: "a", Used: 9, Borrowed: 2, Waiting: 1}, {Queue: "inner", Used: 6, Borrowed: 4, Waiting: 1}, {Queue: "*", Used: 3, Borrowed: 3}},
		},
		"bounded only": {`queue "a" { max_weight = 2 }`, []api.QueueUse{{Queue: "a", Used: 3}, {Queue: "*", Used: 9, Waiting: 1}}},
		"no queues":    {``, []api.QueueUse{{Queue: "*", Used: 12, Waiting: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := drawing(t, tc.pool, jobs...)
			r.View.Nodes = []planner.Node{{Pool: "gpu"}}
			for i, n := range []int{1, 2, 1, 0} {
				g := &r.View.Jobs[i].Groups[0]
				g.Count = n
				for range n {
					g.Live = append(g.Live, planner.Worker{Place: placement.Place{}})
				}
			}
			must.Eq(t, tc.want, Status(r).Pools[0].Use)
		})
	}
}
