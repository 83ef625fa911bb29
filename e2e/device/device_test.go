// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package device

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// One cluster has an HGX H100, and a machine that gets its GPUs while Nomad runs.
// The test checks what an operator and a user see. The parts build on each other.
func TestDevices(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, "hgx-h100", "")
	t.Run("the node shows devices and attributes", func(t *testing.T) { nodeShows(t, r.in(t)) })
	t.Run("a driver installed later is found without a restart", func(t *testing.T) { lateDriver(t, r.in(t)) })
	t.Run("constraints", func(t *testing.T) { constraints(t, r.in(t)) })
	t.Run("a jobspec for nomad-device-nvidia runs unchanged", func(t *testing.T) { oldJobspec(t, r.in(t)) })
	t.Run("a lost GPU, and its return", func(t *testing.T) { lostGPU(t, r.in(t)) })
}

func nodeShows(t *testing.T, r *rig) {
	devices := r.waitHealthy(0, 8)
	must.Len(t, 1, devices)
	g := devices[0]
	must.Eq(t, "nvidia/gpu/NVIDIA H100 80GB HBM3", g.Vendor+"/"+g.Type+"/"+g.Name)
	must.Eq(t, 8, *g.Attributes["island_size"].IntVal)
	must.Eq(t, 81559, *g.Attributes["memory"].IntVal)
	must.Eq(t, "MiB", g.Attributes["memory"].Unit)
	must.Eq(t, "8;28xNV18s", *g.Attributes["topology"].StringVal)
	must.True(t, *g.Attributes["nvswitch"].BoolVal)
	must.Eq(t, strings.Join(r.hw[0].UUIDs(), ","), *g.Attributes["uuid"].StringVal)
	must.Eq(t, "0000:1b:00.0", locality(g.Instances, r.hw[0].UUIDs()[0]))

	// Statistics reach the client's API, as nomad node status -stats shows them.
	client, err := r.Nodes[0].API()
	must.NoError(t, err)
	must.NoError(t, cluster.Until(r.ctx, "device statistics", func(context.Context) error {
		stats, err := client.Nodes().Stats(r.Nodes[0].ID, nil)
		if err != nil {
			return err
		}
		if len(stats.DeviceStats) != 1 || len(stats.DeviceStats[0].InstanceStats) != 8 {
			return fmt.Errorf("%d groups", len(stats.DeviceStats))
		}
		power := stats.DeviceStats[0].InstanceStats[r.hw[0].UUIDs()[0]].Stats.Attributes["Power usage"]
		must.Eq(t, 72, *power.IntNumeratorVal)
		return nil
	}))
}

// lateDriver begins with a machine on which dlopen fails.
func lateDriver(t *testing.T, r *rig) {
	devices, err := r.devices(1)
	must.NoError(t, err)
	must.SliceEmpty(t, devices)
	agent := r.Nodes[1].PID()
	plugins := r.plugins(1)
	must.Len(t, 1, plugins)
	r.install(1, "pcie-l40s")
	r.waitHealthy(1, 8)
	must.Eq(t, agent, r.Nodes[1].PID())
	must.Eq(t, plugins[0].PID, r.plugins(1)[0].PID)
}

func constraints(t *testing.T, r *rig) {
	// Both nodes have eight free GPUs.
	for name, c := range map[string]struct {
		attribute, operator, value string
		client                     int
	}{
		"island":  {"island_size", ">=", "4", 0},
		"memory":  {"memory", ">=", "60 GiB", 0},
		"nvlink":  {"nvlink_bandwidth", ">", "400 GB/s", 0},
		"arch":    {"architecture", "=", "ada", 1},
		"compute": {"cuda_compute_capability", "<", "9.0", 1},
		"power":   {"power", "<=", "350 W", 1},
		"numa":    {"numa_nodes", "set_contains", "numa1,numa0", -1},
		"healthy": {"healthy", "=", "8", -1},
	} {
		id := "constraint-" + name
		spec := job(id, 2, fmt.Sprintf(`
        device "nvidia/gpu" {
          count = 4
          constraint {
            attribute = "${device.attr.%s}"
            operator  = "%s"
            value     = "%s"
          }
        }`, c.attribute, c.operator, c.value), "true")
		for _, a := range r.run(id, 2, spec) {
			must.Len(t, 4, gpus(a))
			if c.client >= 0 {
				must.Eq(t, r.Nodes[c.client].ID, a.NodeID, must.Sprintf("%s %s %s", c.attribute, c.operator, c.value))
			}
		}
		r.stop(id)
	}
	r.run("nowhere", 0, job("nowhere", 1, `
        device "nvidia/gpu" {
          count = 1
          constraint {
            attribute = "${device.attr.island_size}"
            operator  = ">"
            value     = "8"
          }
        }`, "true"))
	r.pending("nowhere")
	r.stop("nowhere")
}

// oldJobspec is what people write for nomad-device-nvidia: the product's name,
// its attributes, an affinity, and NVIDIA_VISIBLE_DEVICES.
func oldJobspec(t *testing.T, r *rig) {
	as := r.run("old", 1, job("old", 1, `
        device "nvidia/gpu/NVIDIA L40S" {
          count = 2
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "40 GiB"
          }
          constraint {
            attribute = "${device.attr.pci_bandwidth}"
            operator  = ">="
            value     = "32 GB/s"
          }
          affinity {
            attribute = "${device.attr.driver_version}"
            operator  = "version"
            value     = ">= 550"
            weight    = 50
          }
        }`, "true"))
	must.Eq(t, r.Nodes[1].ID, as[0].NodeID)
	visible := strings.Split(r.environment(as[0])["NVIDIA_VISIBLE_DEVICES"], ",")
	must.Eq(t, gpus(as[0]), visible)
	r.stop("old")
}

func lostGPU(t *testing.T, r *rig) {
	h100 := func(count int) string {
		return fmt.Sprintf("device \"nvidia/gpu/NVIDIA H100 80GB HBM3\" { count = %d }", count)
	}
	any6 := `device "nvidia/gpu" { count = 6 }`
	stays := r.run("stays", 1, job("stays", 1, h100(2), "exec sleep 600"))
	taken := gpus(stays[0])
	lost := slices.IndexFunc(r.hw[0].UUIDs(), func(id string) bool { return !slices.Contains(taken, id) })
	r.hw[0].Lose(lost)
	devices := r.waitHealthy(0, 7)
	for _, d := range devices[0].Instances {
		if d.ID == r.hw[0].UUIDs()[lost] {
			must.Eq(t, "the GPU has fallen off the bus", d.HealthDescription)
		}
	}

	// Six free GPUs are only on the other node now, every time.
	for i := range 5 {
		id := fmt.Sprintf("elsewhere-%d", i)
		as := r.run(id, 1, job(id, 1, any6, "true"))
		must.Eq(t, r.Nodes[1].ID, as[0].NodeID)
		r.stop(id)
	}
	// Six of the first node's have to wait until the GPU is back, and then do
	// not wait for long: the node's class has changed.
	_, err := r.Register(r.ctx, job("waits", 1, h100(6), "exec sleep 600"), nil)
	must.NoError(t, err)
	r.pending("waits")

	// The GPU of a running task is lost too: the task goes on.
	own := slices.Index(r.hw[0].UUIDs(), taken[0])
	r.hw[0].Lose(own)
	r.waitHealthy(0, 6)
	a := r.placed("stays", 1)
	must.Eq(t, "running", a[0].ClientStatus)
	must.Eq(t, stays[0].ID, a[0].ID)

	r.hw[0].Return(lost)
	r.hw[0].Return(own)
	r.waitHealthy(0, 8)
	as := r.placed("waits", 1)
	must.Eq(t, r.Nodes[0].ID, as[0].NodeID)
	must.Eq(t, stays[0].ID, r.placed("stays", 1)[0].ID)
	r.stop("stays")
	r.stop("waits")
}

func locality(instances []*api.NodeDevice, id string) string {
	for _, d := range instances {
		if d.ID == id && d.Locality != nil {
			return d.Locality.PciBusID
		}
	}
	return ""
}
