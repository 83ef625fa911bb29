// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

const packConfiguration = `
nomad {
  address = "%s"
  resync  = "5s"
}
leader {
  ttl   = "10s"
  delay = "1s"
}
planner {
  hold = "1s"
  tick = "2s"
}
pool "default" {
  cpu_slot = 1000
  pack     = "node"
  policy "elastic-fifo" {}
}
`

// onRacks returns a job with one group for each of two racks, and workers in them.
func onRacks(name string, most int, workers ...int) string {
	var groups strings.Builder
	for i, n := range workers {
		kolo := fmt.Sprintf("kolo {\n min = 1\n max = %d\n}", most)
		if i > 0 {
			kolo = "kolo {}"
		}
		g := strings.ReplaceAll(jobHCL, "kolo { KOLO }", kolo)
		g = g[strings.Index(g, "  group"):strings.LastIndex(g, "}")]
		g = strings.ReplaceAll(g, `group "workers" {`, fmt.Sprintf(`group "r%d" {
    constraint {
      attribute = "${meta.rack}"
      value     = "r%d"
    }`, i, i))
		groups.WriteString(strings.ReplaceAll(g, "count = 0", fmt.Sprint("count = ", n)))
	}
	return fmt.Sprintf("job %q {\n  type = \"batch\"\n%s}", name, groups.String())
}

// A job shrinks in a pool with pack = "node". It leaves the node that no other job is on, so
// that node becomes empty. Without pack, it would leave its smaller group, which is next to
// another job, and no node would become empty. TestMake_Pack of package planner has the same
// drawing.
func TestPack_LeavesANodeEmpty(t *testing.T) {
	if os.Getenv(givenNomad) != "" {
		t.Skip("requires clients, whose metadata it sets")
	}
	w := startWith(t, cluster.Options{CPU: 4000, MemoryMB: 4096, ACL: true, Clients: 2})
	w.rack(t, 0, "r0")
	w.rack(t, 1, "r1")
	w.register(t, onRacks("a", 5, 3, 2))
	w.register(t, onRacks("b", 2, 0, 2))
	w.waitForGroups(t, "a", map[string]int{"r0": 3, "r1": 2})
	w.waitForGroups(t, "b", map[string]int{"r0": 0, "r1": 2})
	must.Eq(t, []bool{false, false}, w.empty(t))
	d := w.agentWith(t, "kolo", fmt.Sprintf(packConfiguration, w.Address))
	waitFor(t, time.Minute, "kolo leads and has seen both jobs", func() bool {
		s, err := d.status()
		return err == nil && s.Leading && s.Ready && len(s.Jobs) == 2
	})
	w.waitForGroups(t, "a", map[string]int{"r0": 3, "r1": 2})

	t.Log("a may have two workers now")
	job, err := w.API.Jobs().ParseHCL(onRacks("a", 2, 3, 2), true)
	must.NoError(t, err)
	_, _, err = w.API.Jobs().RegisterOpts(job, &api.RegisterOptions{PreserveCounts: true}, nil)
	must.NoError(t, err)
	w.waitForGroups(t, "a", map[string]int{"r0": 0, "r1": 2})
	waitFor(t, time.Minute, "a node without allocations", func() bool {
		return w.empty(t)[0]
	})
	must.Eq(t, []bool{true, false}, w.empty(t))
	waitFor(t, time.Minute, "kolo counts an idle node", func() bool {
		s, err := d.status()
		return err == nil && len(s.Pools) == 1 && len(s.Pools[0].Nodes) == 1 && s.Pools[0].Nodes[0].Nodes == 2 && s.Pools[0].Nodes[0].Idle == 1
	})
	out, err := d.kolo("status")
	must.NoError(t, err)
	t.Log(out)

	t.Log("a waiting job lacks room: kolo reports the slots and a node")
	w.submit(t, "c", "min = 7\nmax = 7")
	waitFor(t, time.Minute, "what the job lacks", func() bool {
		out, err = d.kolo("status")
		return err == nil && strings.Contains(out, "wanted: 7 more slots, 1 node")
	})
	t.Log(out)
}

// empty returns which nodes the selector "empty" of Nomad Autoscaler would take. On these, each
// allocation is terminal, either on its client or as Nomad wants it (nodeHasAllocs in
// sdk/helper/scaleutils/nodeselector/empty.go of v0.4.7).
func (w *world) empty(t *testing.T) []bool {
	t.Helper()
	out := make([]bool, len(w.Nodes))
	for i, n := range w.Nodes {
		allocs, _, err := w.API.Nodes().Allocations(n.ID, nil)
		must.NoError(t, err)
		out[i] = true
		for _, a := range allocs {
			if !a.ClientTerminalStatus() && !a.ServerTerminalStatus() {
				out[i] = false
			}
		}
	}
	return out
}
