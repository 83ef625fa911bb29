// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// The slots of a GPU type are divided between the queues that want them, within their
// shares of the pool, even if one queue held them all.
func TestPolicy_SharesGPUTypes(t *testing.T) {
	for _, line := range []string{"elastic-fifo", "weighted-fair"} {
		w := newTable(t, 0, New(treeOf(t, q("a", 0), q("b", 0)), policyOf(t, line), nil))
		w.s.Nodes = []policy.Node{{ID: "x", Type: "a100", GPUs: 8}, {ID: "y", Type: "h100", GPUs: 8}}
		w.job("a1", "a", 4, 8, func(j *policy.Job) { j.Type = "h100" })
		w.job("b1", "b", 1, 8, func(j *policy.Job) { j.Held, j.Count = "h100", 8 })
		must.Eq(t, "a1=4 b1=4", w.decide().counts(), must.Sprint(line))
		must.True(t, w.last.Allocations[1].Reclaimed)
	}
}
