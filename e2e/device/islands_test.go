// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package device

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// With group_by = "nvlink" four GPUs always come from one island. The machines, one
// with two islands of four and one with an island of eight, are filled again and
// again.
func TestIslands(t *testing.T) {
	t.Parallel()
	r := newRig(t, "group_by = \"nvlink\"\n"+quick, "two-boards-a100", "hgx-h100")
	devices := r.waitHealthy(0, 8)
	must.Len(t, 2, devices)
	r.waitHealthy(1, 8)
	must.Eq(t, "4;6xNV4", *devices[0].Attributes["topology"].StringVal)

	island := map[string]string{}
	for i, id := range r.hw[0].UUIDs() {
		island[id] = fmt.Sprintf("a100-%d", i/4)
	}
	for _, id := range r.hw[1].UUIDs() {
		island[id] = "h100"
	}
	t.Run("four of one island, every time", func(t *testing.T) {
		r := r.in(t)
		const rounds, each = 10, 4
		used := map[string]int{}
		for round := range rounds {
			id := fmt.Sprintf("fours-%d", round)
			// All sixteen GPUs are taken at once.
			spec := job(id, each, `device "nvidia/gpu" { count = 4 }`, "exec sleep 600")
			taken := map[string]bool{}
			for _, a := range r.run(id, each, spec) {
				ids := gpus(a)
				must.Len(t, 4, ids)
				for _, g := range ids {
					must.Eq(t, island[ids[0]], island[g], must.Sprintf("round %d: %v", round, ids))
					must.False(t, taken[g])
					taken[g] = true
				}
				used[island[ids[0]]]++
			}
			r.stop(id)
		}
		must.Eq(t, map[string]int{"a100-0": rounds, "a100-1": rounds, "h100": 2 * rounds}, used)
	})
	t.Run("eight need an island of eight", func(t *testing.T) {
		r := r.in(t)
		as := r.run("eight", 1, job("eight", 1, `device "nvidia/gpu" { count = 8 }`, "exec sleep 600"))
		must.Eq(t, r.Nodes[1].ID, as[0].NodeID)
		r.run("eight-more", 0, job("eight-more", 1, `device "nvidia/gpu" { count = 8 }`, "true"))
		r.pending("eight-more")
		r.stop("eight-more")
		r.stop("eight")
	})
	t.Run("an island by its name", func(t *testing.T) {
		r := r.in(t)
		as := r.run("named", 1, job("named", 1, `device "nvidia/gpu/NVIDIA A100-SXM4-40GB nvlink1" { count = 4 }`, "true"))
		must.Eq(t, "a100-1", island[gpus(as[0])[0]])
		r.stop("named")
	})
	t.Run("the jobspec that comes with Kolo", func(t *testing.T) {
		r := r.in(t)
		text, err := os.ReadFile("../../jobspecs/gpu-topology.nomad.hcl")
		must.NoError(t, err)
		for _, a := range r.run("gpu-topology", 2, string(text)) {
			ids := gpus(a)
			must.Len(t, 4, ids)
			for _, g := range ids {
				must.Eq(t, island[ids[0]], island[g])
			}
		}
		r.stop("gpu-topology")
	})
	t.Run("two blocks keep both their GPUs", func(t *testing.T) {
		r := r.in(t)
		two := `
        device "nvidia/gpu/NVIDIA A100-SXM4-40GB nvlink0" { count = 3 }
        device "nvidia/gpu/NVIDIA A100-SXM4-40GB nvlink1" { count = 2 }`
		as := r.run("two", 1, job("two", 1, two, "true"))
		want := gpus(as[0])
		must.Len(t, 5, want)
		var got []string
		keys := 0
		for k, v := range r.environment(as[0]) {
			if strings.HasPrefix(k, "KOLO_GPUS_") {
				keys++
				got = append(got, strings.Split(v, ",")...)
			}
		}
		slices.Sort(got)
		must.Eq(t, 2, keys)
		must.Eq(t, want, got)
		r.stop("two")
	})
	t.Run("links that go down give no task's GPUs to another", func(t *testing.T) {
		r := r.in(t)
		const first = "NVIDIA A100-SXM4-40GB nvlink0"
		as := r.run("holder", 1, job("holder", 1, `device "nvidia/gpu/`+first+`" { count = 4 }`, "exec sleep 600"))
		used := gpus(as[0])
		r.hw[0].Set(0, "nolinks", "0")
		r.waitHealthy(0, 7)
		// The groups' names outlive the process that assigned them.
		must.NoError(t, r.plugins(0)[0].Kill())
		must.NoError(t, cluster.Until(r.ctx, "another plugin process that sees the same", func(context.Context) error {
			if n := len(r.plugins(0)); n != 1 {
				return fmt.Errorf("%d processes", n)
			}
			return nil
		}))
		devices := r.waitHealthy(0, 7)
		must.Len(t, 2, devices)
		must.Eq(t, first, devices[0].Name)
		must.Len(t, 4, devices[0].Instances)

		r.run("neighbour", 0, job("neighbour", 1, `device "nvidia/gpu/`+first+`" { count = 1 }`, "exec sleep 600"))
		r.pending("neighbour")
		for _, a := range r.run("others", 3, job("others", 3, `device "nvidia/gpu" { count = 4 }`, "exec sleep 600")) {
			for _, id := range gpus(a) {
				must.SliceNotContains(t, used, id)
			}
		}
		r.hw[0].Set(0, "nolinks", "12")
		r.waitHealthy(0, 8)
		r.stop("others")
		r.stop("neighbour")
		r.stop("holder")
	})
	t.Run("a horovod task sees the GPUs of both", func(t *testing.T) {
		r := r.in(t)
		if _, _, ok := horovod(t); !ok {
			t.Skip("bin/nomad-driver-horovod or .venv is missing; make build horovod")
		}
		as := r.run("horovod", 1, horovodJob("horovod", "none", `
        device "nvidia/gpu/NVIDIA A100-SXM4-40GB nvlink0" { count = 4 }
        device "nvidia/gpu/NVIDIA A100-SXM4-40GB nvlink1" { count = 4 }`))
		env := r.environment(as[0])
		visible := strings.Split(env["NVIDIA_VISIBLE_DEVICES"], ",")
		slices.Sort(visible)
		must.Len(t, 8, visible)
		must.Eq(t, gpus(as[0]), visible)
		must.Eq(t, env["NVIDIA_VISIBLE_DEVICES"], env["CUDA_VISIBLE_DEVICES"])
		r.stop("horovod")
	})
}
