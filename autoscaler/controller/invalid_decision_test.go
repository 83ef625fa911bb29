// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// fixed is an external policy that gives every job the same count.
type fixed int

func (fixed) Name() string { return "fixed" }

func (n fixed) Allocate(s *policy.Snapshot) (d policy.Decision) {
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: int(n), Reason: "fixed"})
	}
	return d
}

func (n fixed) TryAllocate(s *policy.Snapshot) (policy.Decision, error) { return n.Allocate(s), nil }

// The simulator stops at decisions of such policies. The autoscaler refuses them as a whole,
// too, and does not obey valid parts.
func TestController_AnInvalidDecisionIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		count int
		job   nomadtest.Job
		want  string
	}{
		"a size that the job's rule does not allow": {
			3, nomadtest.Job{Elastic: map[string]any{"kolo": []any{map[string]any{"sizes": []any{1.0, 2.0, 4.0}}}}, Max: 4},
			"3 workers for job default/a: its sizes are [1 2 4]",
		},
		"more GPUs than there are of the type": {
			5, nomadtest.Job{Elastic: elastic(map[string]any{}), Max: 8, Model: "A100"},
			`5 workers for job default/a: they need 5 slots of type "nvidia/gpu/A100", and 4 are left`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 4)
			for i, model := range []string{"A100", "H100"} {
				w.nomad.ChangeNode(i, func(n *nomadtest.Node) { n.Model = model })
			}
			c := w.config()
			c.Pools["default"] = config.Pool{Name: "default", Policy: "fixed", Device: "gpu"}
			a, _ := w.startWith(c, external{fixed(tc.count)})
			job := tc.job
			job.ID, job.GPUs, job.CPU, job.Priority = "a", 1, 100, 50
			w.nomad.Register(job)
			must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
				counts, _ := w.nomad.Counts()
				s := a.Status()
				if len(s.Pools) == 1 && s.Pools[0].Problem == "policy fixed: "+tc.want && counts["a"] == 0 {
					return nil
				}
				return fmt.Errorf("counts are %v, pools %+v", counts, s.Pools)
			}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
		})
	}
}
