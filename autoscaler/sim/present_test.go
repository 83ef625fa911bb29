// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// cutter is a policy that keeps one of the snapshots it sees.
type cutter struct {
	policy.Policy
	at   int // number of the decision
	seen policy.Snapshot
}

func (c *cutter) Allocate(s *policy.Snapshot) policy.Decision {
	if c.at--; c.at == 0 {
		c.seen = *s
		c.seen.Jobs = append([]policy.Job(nil), s.Jobs...)
	}
	return c.Policy.Allocate(s)
}

// curveOf returns the step times of a job as a policy sees them.
func curveOf(j *trace.Job) speedup.Curve {
	times := make([]float64, j.Curve.Most())
	for i := range times {
		times[i] = j.StepTime(i + 1)
	}
	return speedup.CurveOf(times...)
}

// A simulation that starts from another one's intermediate state ends with the same result.
func TestRun_Present(t *testing.T) {
	for _, name := range []string{"fifo", "srjf", "elastic-fifo", "kolo"} {
		t.Run(name, func(t *testing.T) {
			tr := trace.Synthetic{Jobs: 40, Seed: 3, GPUs: 16, Load: 1.2}.Trace()
			cfg := sim.Config{Trace: tr, Nodes: sim.Uniform(4, 4, ""), Info: sim.Info{Remaining: true, Curves: true}, Placement: sim.CountOnly}
			cut := &cutter{Policy: parse(t, name), at: 50}
			cfg.Policy = cut
			whole, err := sim.Run(t.Context(), cfg)
			must.NoError(t, err)

			now := cut.seen.Now
			left := map[string]policy.Job{}
			for _, j := range cut.seen.Jobs {
				left[j.ID] = j
			}
			rest, present := &trace.Trace{}, &sim.Present{Now: now, State: cut.seen.State, Changed: cut.seen.Changed}
			for i := range tr.Jobs {
				j := &tr.Jobs[i]
				v, there := left[j.ID]
				switch {
				case !there && j.Submit <= now:
					continue // has ended
				case !there:
					v = policy.Job{ID: j.ID, Tenant: j.Tenant, Namespace: j.Tenant, Weight: j.Weight, Submit: j.Submit, Min: j.Min, Max: j.Max, Preferred: j.Preferred,
						Sizes: j.Sizes, PerWorker: 1, Preemptible: j.Preemptible, Priority: j.Priority, Deadline: j.Deadline, Remaining: j.Steps}
					v.Curve = curveOf(j)
				}
				rest.Jobs, present.Jobs = append(rest.Jobs, *j), append(present.Jobs, v)
			}
			must.Greater(t, 5, len(rest.Jobs))
			cfg.Trace, cfg.Policy, cfg.Present = rest, parse(t, name), present
			resumed, err := sim.Run(t.Context(), cfg)
			must.NoError(t, err)
			ends := map[string]float64{}
			for _, j := range whole.Jobs {
				ends[j.ID] = j.Done
			}
			for _, j := range resumed.Jobs {
				must.True(t, j.Ended)
				must.InDelta(t, ends[j.ID], j.Done, 1e-3, must.Sprint(j.ID))
			}
		})
	}
}
