// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// The nodes of one job are those that hold its own allocations.
func TestWatcher_MachinesOf(t *testing.T) {
	f := newFixture(t)
	for i, job := range []string{"a", "b", "a"} {
		node := fmt.Sprintf("n%d", i)
		f.node(node, "cpu", "")
		f.index++
		w := wireAlloc{ID: fmt.Sprintf("alloc-%d", i), Namespace: "default", JobID: job, NodeID: node, ModifyIndex: f.index, DesiredStatus: "run", ClientStatus: "running"}
		must.NoError(t, json.Unmarshal([]byte(`{"Tasks":{"t":{"Cpu":{"CpuShares":2000},"Memory":{"MemoryMB":64}}}}`), &w.AllocatedResources))
		f.store.putAlloc(&w)
	}
	w := &Watcher{store: f.store}
	pools := func(string) config.Pool { return config.Pool{CPUSlot: 500} }
	holders := func(machines []Machine) (out []string) {
		for _, m := range machines {
			for _, h := range m.Held {
				out = append(out, fmt.Sprintf("%s %s %d", m.Name, h.Job.ID, h.Slots))
			}
		}
		return out
	}
	must.Eq(t, []string{"n0 a 4", "n1 b 4", "n2 a 4"}, holders(w.Machines(pools)))
	of := w.MachinesOf(identity.JobKey{Namespace: "default", ID: "a"}, pools)
	must.Len(t, 2, of)
	must.Eq(t, []string{"n0 a 4", "n2 a 4"}, holders(of))
	must.SliceEmpty(t, w.MachinesOf(identity.JobKey{Namespace: "other", ID: "a"}, pools))
}
