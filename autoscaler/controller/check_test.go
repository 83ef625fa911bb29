// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// TestCheck has one decision per line that must not be obeyed.
func TestCheck(t *testing.T) {
	s := &policy.Snapshot{
		Nodes: []policy.Node{{GPUs: 4}},
		Jobs:  []policy.Job{{ID: "a", Min: 2, Max: 4, Count: 2}, {ID: "b", Min: 1, Max: 4, PerWorker: 2}},
	}
	give := func(pairs ...any) (d policy.Decision) {
		for i := 0; i < len(pairs); i += 2 {
			d.Allocations = append(d.Allocations, policy.Allocation{Job: pairs[i].(string), Count: pairs[i+1].(int)})
		}
		return d
	}
	for name, tc := range map[string]struct {
		d    policy.Decision
		want string
	}{
		"good":            {give("a", 2, "b", 1), ""},
		"none":            {give("a", 0, "b", 0), ""},
		"a job missing":   {give("a", 2), "it answered for 1 jobs of 2"},
		"wrong order":     {give("b", 1, "a", 2), "answer 0 is about job b and not a"},
		"below minimum":   {give("a", 1, "b", 1), "1 workers for job a, which takes 2 to 4"},
		"above maximum":   {give("a", 5, "b", 0), "5 workers for job a"},
		"negative":        {give("a", -1, "b", 0), "-1 workers"},
		"beyond capacity": {give("a", 4, "b", 1), "6 slots given out of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(s, tc.d)
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}
