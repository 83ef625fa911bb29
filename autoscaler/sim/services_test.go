// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"context"
	"math"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// window is a burst of jobs of one GPU that are alike.
func window(spread, load float64) *trace.Trace {
	return trace.Synthetic{Jobs: 300, GPUs: 16, Seed: 3, Load: load, Similar: spread}.Trace()
}

func averageJCT(t *testing.T, tr *trace.Trace, line string, info sim.Info) (avg, resizes float64) {
	t.Helper()
	p, err := builtin.Policies.Parse(line)
	must.NoError(t, err)
	r, err := sim.Run(context.Background(), sim.Config{Trace: tr, Nodes: sim.Uniform(2, 8, ""), Policy: p, Info: info, Resize: sim.ResizeCost{Constant: 1}, Seed: 1})
	must.NoError(t, err)
	for i := range r.Jobs {
		avg += (r.Jobs[i].Done - tr.Jobs[i].Submit) / float64(len(r.Jobs))
		resizes += float64(r.Jobs[i].Resizes) / float64(len(r.Jobs))
	}
	return avg, resizes
}

// TestRun_SimilarJobs: if lengths are similar, kolo is about as good as FIFO, and hardly
// resizes.
func TestRun_SimilarJobs(t *testing.T) {
	for _, spread := range []float64{0.3, 0.6} {
		tr := window(spread, 1.3)
		fifo, _ := averageJCT(t, tr, "fifo", sim.Info{})
		kolo, resizes := averageJCT(t, tr, "kolo", sim.Info{})
		must.Less(t, 1.03*fifo, kolo, must.Sprintf("spread %v", spread))
		must.Less(t, 1, resizes)
	}
}

// TestRun_LengthError: predicted lengths are less useful than exact ones, and more useful
// than none.
func TestRun_LengthError(t *testing.T) {
	tr := window(0.8, 1.5)
	exact, _ := averageJCT(t, tr, "kolo", sim.Info{Remaining: true, Curves: true})
	wrong, _ := averageJCT(t, tr, "kolo", sim.Info{Remaining: true, Curves: true, LengthError: 1})
	none, _ := averageJCT(t, tr, "kolo", sim.Info{Curves: true})
	must.Less(t, wrong, exact)
	must.Less(t, none, wrong)
}

// watched asks a policy, and shows the snapshots to a function.
type watched struct {
	policy.Policy
	see func(*policy.Snapshot)
}

func (w watched) Allocate(s *policy.Snapshot) policy.Decision {
	w.see(s)
	return w.Policy.Allocate(s)
}

// TestRun_Services: policies see the services of completed jobs, by application only if
// they know kinds.
func TestRun_Services(t *testing.T) {
	for want, info := range map[length.Origin]sim.Info{length.Pool: {}, length.Kind: {Kinds: true}} {
		fifo, err := builtin.Policies.Parse("fifo")
		must.NoError(t, err)
		var last length.Sample
		p := watched{fifo, func(s *policy.Snapshot) { last = s.Jobs[0].Alike }}
		tr := window(0.5, 1)
		_, err = sim.Run(context.Background(), sim.Config{Trace: tr, Nodes: sim.Uniform(2, 8, ""), Policy: p, Info: info, Seed: 1})
		must.NoError(t, err)
		must.Eq(t, want, last.Origin)
		must.Between(t, 0.2, last.Spread, 0.8)
		must.Between(t, math.Log(700), math.Log(last.Median), math.Log(2000))
	}
}
