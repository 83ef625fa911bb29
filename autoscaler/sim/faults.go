// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"math/rand/v2"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// Faults generates random node failures and spot withdrawals. The times for which a node is
// in and out of service are exponentially distributed.
type Faults struct {
	// FailEvery is the mean time in service until a node fails, and WithdrawEvery until it
	// is withdrawn with notice. Both are in seconds; 0 is never.
	FailEvery, WithdrawEvery float64

	// Back is the mean time until the node returns. 0 is an hour.
	Back float64
}

func (f Faults) any() bool { return f.FailEvery > 0 || f.WithdrawEvery > 0 }

// Events returns the events of a run with the given seed. They cover much more time than
// the workload should take.
func (f Faults) Events(nodes []trace.Node, t *trace.Trace, seed uint64) []trace.NodeEvent {
	back := f.Back
	if back <= 0 {
		back = 3600
	}
	gpus, work := 0.0, 0.0
	for _, n := range nodes {
		gpus += float64(n.GPUs)
	}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		work += j.Duration(j.Min) * float64(j.GPUs(j.Min))
	}
	end := t.Jobs[len(t.Jobs)-1].Submit + 10*work/gpus + 7*24*3600

	var events []trace.NodeEvent
	for i, n := range nodes {
		// A generator for each node: adding one changes nothing for others.
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		for now := 0.0; ; {
			fail, withdraw := wait(rng, f.FailEvery, end), wait(rng, f.WithdrawEvery, end)
			kind := trace.NodeDown
			if withdraw < fail {
				kind = trace.NodeWithdraw
			}
			now += min(fail, withdraw)
			if now >= end {
				break
			}
			events = append(events, trace.NodeEvent{Time: now, Node: n.ID, Kind: kind})
			now += rng.ExpFloat64() * back
			events = append(events, trace.NodeEvent{Time: now, Node: n.ID, Kind: trace.NodeUp})
		}
	}
	return events
}

// wait draws a time with the given mean; if the mean is 0, it returns never.
func wait(rng *rand.Rand, mean, never float64) float64 {
	v := rng.ExpFloat64()
	if mean <= 0 {
		return never
	}
	return v * mean
}
