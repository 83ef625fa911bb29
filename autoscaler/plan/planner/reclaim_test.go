// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// A job that was resized a moment ago keeps its size, unless it returns slots that its
// queue borrowed, or ran for its max_time.
func TestMake_ReclaimedSlotsDoNotWait(t *testing.T) {
	now := time.Unix(1e6, 0)
	c := Cluster{Jobs: []Job{{
		Min: 1, Max: 8, Started: true, LastChange: now.Add(-time.Second), Groups: []Group{{Name: "workers", Count: 4, Max: 8, Class: &Class{}}},
	}}}
	for name, tc := range map[string]struct {
		want  Want
		count int
	}{
		"a shrink":                {Want{Count: 2}, 4},
		"reclaimed":               {Want{Count: 2, Reclaimed: true}, 2},
		"growth is never claimed": {Want{Count: 6, Reclaimed: true}, 4},
		"suspended by its policy": {Want{Count: 0, Reclaimed: true}, 1}, // it is not preemptible
		"stopped":                 {Want{Count: 0, Stops: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := Make(&c, []Want{tc.want}, now, DefaultOptions())
			got := 4
			for _, a := range p.Actions {
				got = a.To
			}
			must.Eq(t, tc.count, got)
		})
	}
}
