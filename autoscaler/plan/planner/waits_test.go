// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// TestMake_Reasons checks why a job does not start although the policy wants it to. It is
// the last job of the cluster, and the others keep their workers.
func TestMake_Reasons(t *testing.T) {
	gang := func(n int, more ...func(*Job)) func(*Job) {
		return func(j *Job) {
			j.Min, j.Max, j.Groups[0].Max = n, 64, 64
			for _, f := range more {
				f(j)
			}
		}
	}
	slots := func(n int) func(*Job) { return func(j *Job) { j.Groups[0].Need.Slots = n } }
	firstNode := func(j *Job) { j.Groups[0].Class = &Class{Places: []placement.Place{{}}} }
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    int // workers
		reason  waiting.Reason
	}{
		"others hold the slots":                      {nodes(4).with("a", nil, 0, 0, 0).with("b", gang(2)), 2, waiting.NoRoom},
		"a worker needs more than any node has free": {nodes(4, 4).with("a", nil, 0, 1).with("b", gang(1, slots(4))), 1, waiting.Fragmented},
		"others are on the nodes that it may use":    {nodes(4, 4).with("a", nil, 0, 0).with("b", gang(3, firstNode)), 3, waiting.Fragmented},
		"the nodes that it may use are too few":      {nodes(4, 4).with("a", gang(6, firstNode)), 6, waiting.Constraint},
		"no node is as large as a worker":            {nodes(4, 4).with("a", gang(1, slots(6))), 1, waiting.Constraint},
		"no node meets its constraints":              {nodes(4, 4).with("a", gang(1, func(j *Job) { j.Groups[0].Class = &Class{} })), 1, waiting.Constraint},
		"within one rack":                            {nodes(4, 4).inRacks("a", func(j *Job) { rackOnly(j); j.Min = 8 }, 0, 0), 8, waiting.Fragmented},
		"its last workers found no place":            {nodes(4).with("a", gang(2, func(j *Job) { j.Groups[0].GrowAfter = now.Add(time.Minute) })), 2, waiting.Settling},
	} {
		t.Run(name, func(t *testing.T) {
			wants := make([]Want, len(tc.cluster.Jobs))
			for i := range wants {
				wants[i].Count = tc.cluster.Jobs[i].Count()
			}
			wants[len(wants)-1].Count = tc.want
			p := Make(tc.cluster, wants, now, DefaultOptions())
			must.Len(t, 1, p.Waits, must.Sprint(p))
			must.Eq(t, tc.reason, p.Waits[0].Reason, must.Sprint(p.Waits[0].Why))
		})
	}
	p := Make(nodes(4).with("a", nil, 0, 0, 0, 0), []Want{{Count: 5}}, now, DefaultOptions())
	for _, w := range p.Waits {
		must.Eq(t, "", w.Reason) // it has workers
	}
}
