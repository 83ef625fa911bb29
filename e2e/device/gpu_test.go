// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build gpu

package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inspect"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// onGPU returns the plugin's path and what nvidia-smi -L prints; the test ends
// where there is no GPU.
func onGPU(t *testing.T) (path, list string) {
	t.Helper()
	list, err := nvidiaSMI(t, "-L")
	if err != nil || !strings.Contains(list, "UUID") {
		t.Fatalf("this needs a machine with an NVIDIA GPU: nvidia-smi -L: %v\n%s", err, list)
	}
	path, err = binary()
	must.NoError(t, err)
	return path, list
}

// The plugin on the real library is compared with nvidia-smi, field by field. Every
// difference is reported, not just the first.
func TestGPUComparedWithNvidiaSMI(t *testing.T) {
	path, list := onGPU(t)
	gpus := query(t, smiFields())
	must.SliceNotEmpty(t, gpus, must.Sprint("nvidia-smi lists no GPU"))
	p, _ := connect(t, path, map[string]any{"enabled": true, "device_nodes": true}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	prints, err := p.Fingerprint(ctx)
	must.NoError(t, err)
	f := <-prints
	must.NoError(t, f.Error)

	instances := parseList(list)
	compareInstances(t, f.Devices, instances)
	offered := len(instances)
	for _, want := range gpus {
		g, d := find(f.Devices, want["uuid"])
		if want["mig.mode.current"] == "Enabled" {
			if d != nil {
				t.Errorf("%s is cut into instances, and yet given out as a whole", want["uuid"])
			}
			continue
		}
		offered++
		if d == nil {
			t.Errorf("%s is not fingerprinted", want["uuid"])
			continue
		}
		compareGPU(t, want, g, d)
		reserve(t, p, d.ID)
	}
	total := 0
	for _, g := range f.Devices {
		total += len(g.Devices)
	}
	if total != offered {
		t.Errorf("the plugin offers %d devices, nvidia-smi lists %d", total, offered)
	}
	compareReadings(ctx, t, p)
}

func find(groups []*device.DeviceGroup, id string) (*device.DeviceGroup, *device.Device) {
	for _, g := range groups {
		for _, d := range g.Devices {
			if d.ID == id {
				return g, d
			}
		}
	}
	return nil, nil
}

// compareInstances looks at what nvidia-smi -L lists below a GPU in MIG mode.
func compareInstances(t *testing.T, groups []*device.DeviceGroup, instances []instance) {
	t.Helper()
	for _, in := range instances {
		g, d := find(groups, in.uuid)
		if d == nil {
			t.Errorf("%s is not fingerprinted", in.uuid)
			continue
		}
		agree(t, in.uuid, "profile", in.profile, text(g.Attributes["mig_profile"]))
		if parents := text(g.Attributes["mig_parent"]); !slices.Contains(strings.Split(parents, ","), in.parent) {
			t.Errorf("%s is of %s, the plugin reports %s", in.uuid, in.parent, parents)
		}
	}
}

func compareGPU(t *testing.T, want map[string]string, g *device.DeviceGroup, d *device.Device) {
	t.Helper()
	if !d.Healthy {
		t.Errorf("%s is unhealthy: %s", d.ID, d.HealthDesc)
	}
	agree(t, d.ID, "name", want["name"], g.Name)
	agree(t, d.ID, "pci.bus_id", strings.TrimPrefix(strings.ToLower(want["pci.bus_id"]), "0000"), d.HwLocality.PciBusID)
	for field, name := range facts {
		// GPUs of one model may differ: a group has the least of a number, and
		// no text.
		if v := want[field]; v != "" && (g.Attributes[name] != nil || len(g.Devices) == 1) {
			agree(t, d.ID, field, v, text(g.Attributes[name]))
		}
	}
	for name, a := range g.Attributes {
		t.Logf("    %-24s %s", name, a.GoString())
	}
}

func reserve(t *testing.T, p device.DevicePlugin, id string) {
	t.Helper()
	r, err := p.Reserve([]string{id})
	if err != nil {
		t.Errorf("reserving %s: %v", id, err)
		return
	}
	agree(t, id, "NVIDIA_VISIBLE_DEVICES", id, r.Envs["NVIDIA_VISIBLE_DEVICES"])
	for _, node := range r.Devices {
		t.Logf("    node %s", node.HostPath)
	}
}

// The link matrix and the NUMA nodes compared with those of nvidia-smi topo -m, and the
// NVLinks compared with those of nvidia-smi nvlink -s.
func TestGPUTopology(t *testing.T) {
	path, _ := onGPU(t)
	out, err := exec.Command(path, "topo", "-json").Output()
	must.NoError(t, err)
	var report inspect.Report
	must.NoError(t, json.Unmarshal(out, &report))
	table, err := nvidiaSMI(t, "topo", "-m")
	must.NoError(t, err, must.Sprint(table))
	t.Logf("%s\n%s", table, report.Topology)
	matrix, err := parseTopo(table)
	must.NoError(t, err)

	// nvidia-smi has no rows for MIG instances, so only whole GPUs are compared.
	gpus := query(t, []string{"uuid"})
	must.Len(t, len(gpus), matrix.cells)
	at := make([]int, len(gpus))
	for i, gpu := range gpus {
		at[i] = slices.IndexFunc(report.GPUs, func(g inspect.GPU) bool { return g.UUID == gpu["uuid"] })
	}
	text, err := nvidiaSMI(t, "nvlink", "-s")
	if err != nil {
		t.Logf("nvidia-smi nvlink -s: %v\n%s", err, text) // no NVLink, in some versions
	}
	up := parseNVLinks(text)
	for i, a := range at {
		if a < 0 {
			continue
		}
		g := report.GPUs[a]
		for j, b := range at {
			if b >= 0 {
				agree(t, g.UUID, fmt.Sprintf("topo, GPU%d to GPU%d", i, j),
					matrix.cells[i][j], strings.TrimSuffix(report.Links[a][b], "s"))
			}
		}
		if _, err := strconv.Atoi(matrix.numa[i]); err == nil {
			agree(t, g.UUID, "topo, NUMA Affinity", matrix.numa[i], strconv.Itoa(g.NUMA))
		}
		agree(t, g.UUID, "nvlink, links that are up", strconv.Itoa(up[g.UUID].up), strconv.Itoa(g.NVLinks))
		if mbps := up[g.UUID].gbps * 1000; math.Abs(mbps-float64(g.NVLinkMBps)) > mbps/100 {
			t.Errorf("%s: the NVLinks carry %.0f MB/s for nvidia-smi, %d for the plugin", g.UUID, mbps, g.NVLinkMBps)
		}
	}
}

// The first fingerprint and one reading per second are measured with a real driver. The
// result is only printed, because it depends on the GPUs and the driver.
func TestGPUCost(t *testing.T) {
	path, _ := onGPU(t)
	ours, _ := measureBoth(t, path, nil, nil)
	must.Between(t, 0.8, ours.statsRate, 1.2)
}

// A task of a real Nomad gets a real GPU.
func TestGPUInNomad(t *testing.T) {
	path, _ := onGPU(t)
	nomad := nomadPath(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{Nomad: nomad, Clients: 1, Log: t.Logf, Plugins: map[string]string{path: quick}})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, c.Stop()) })
	r := &rig{Cluster: c, t: t, ctx: ctx}
	must.NoError(t, cluster.Until(ctx, "the GPUs", func(context.Context) error {
		devices, err := r.devices(0)
		if err == nil && len(devices) == 0 {
			err = errors.New("none yet")
		}
		return err
	}))
	a := r.run("smi", 1, job("smi", 1, `device "nvidia/gpu" { count = 1 }`, "nvidia-smi -L"))[0]
	must.Eq(t, gpus(a), []string{r.environment(a)["NVIDIA_VISIBLE_DEVICES"]})
	text, err := c.Logs(a.ID, "t", "stdout")
	must.NoError(t, err)
	t.Log(fmt.Sprint("the task saw:\n", text))
}
