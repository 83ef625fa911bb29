// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build gpu

package device

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/plugin"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// smi are the fields that are compared, by the names that nvidia-smi gives
// them. Not every GPU has each: what nvidia-smi cannot tell either is passed
// over.
var smi = []string{
	"uuid", "name", "pci.bus_id", "memory.total", "enforced.power.limit", "clocks.max.graphics",
	"clocks.max.memory", "pcie.link.gen.max", "pcie.link.width.max", "display_mode", "persistence_mode",
	"ecc.mode.current", "compute_cap", "driver_version", "mig.mode.current",
	"temperature.gpu", "power.draw", "memory.used",
}

// querySMI returns one map for each GPU.
func querySMI(t *testing.T) []map[string]string {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "--query-gpu="+strings.Join(smi, ","), "--format=csv,noheader,nounits").Output()
	must.NoError(t, err, must.Sprint("nvidia-smi is needed: this test is for machines with an NVIDIA GPU"))
	rows, err := csv.NewReader(strings.NewReader(strings.ReplaceAll(string(out), ", ", ","))).ReadAll()
	must.NoError(t, err)
	var all []map[string]string
	for _, row := range rows {
		must.Len(t, len(smi), row)
		gpu := map[string]string{}
		for i, name := range smi {
			if v := strings.TrimSpace(row[i]); v != "" && !strings.HasPrefix(v, "[") && v != "N/A" {
				gpu[name] = v
			}
		}
		all = append(all, gpu)
	}
	must.SliceNotEmpty(t, all)
	return all
}

// What the plugin says on the real library, field by field beside nvidia-smi.
func TestGPUBesideNvidiaSMI(t *testing.T) {
	path, err := binary()
	must.NoError(t, err)
	gpus := querySMI(t)
	p, _ := connect(t, path, map[string]any{"enabled": true, "device_nodes": true}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	prints, err := p.Fingerprint(ctx)
	must.NoError(t, err)
	f := <-prints
	must.NoError(t, f.Error)
	stats, err := p.Stats(ctx, time.Second)
	must.NoError(t, err)
	s := <-stats
	must.NoError(t, s.Error)

	for _, want := range gpus {
		g, d := find(f.Devices, want["uuid"])
		if want["mig.mode.current"] == "Enabled" {
			must.Nil(t, d, must.Sprint("a GPU that is cut into instances is not given out as a whole"))
			continue
		}
		must.NotNil(t, d, must.Sprintf("%s is not fingerprinted", want["uuid"]))
		must.Eq(t, want["name"], g.Name)
		must.True(t, d.Healthy, must.Sprint(d.HealthDesc))
		must.Eq(t, strings.TrimPrefix(strings.ToLower(want["pci.bus_id"]), "0000"), d.HwLocality.PciBusID)
		for field, attribute := range map[string]string{
			"memory.total": "memory", "enforced.power.limit": "power", "clocks.max.graphics": "cores_clock",
			"clocks.max.memory": "memory_clock", "pcie.link.gen.max": "pcie_gen", "pcie.link.width.max": "pcie_width",
			"display_mode": "display_state", "persistence_mode": "persistence_mode",
			"compute_cap": "cuda_compute_capability", "driver_version": "driver_version",
		} {
			compare(t, field, want[field], g.Attributes[attribute])
		}
		if ecc := want["ecc.mode.current"]; ecc != "" {
			must.Eq(t, ecc == "Enabled", *g.Attributes["ecc"].Bool)
		}
		now := s.Groups[slices.IndexFunc(s.Groups, func(s *device.DeviceGroupStats) bool { return s.Name == g.Name })].
			InstanceStats[d.ID].Stats.Attributes
		// These change between the two readings.
		near(t, "temperature.gpu", want, now["Temperature"], 10)
		near(t, "power.draw", want, now["Power usage"], 60)
		near(t, "memory.used", want, now["Memory state"], 1024)
		t.Logf("%s %s: %d fields agree; driver %s", d.ID, g.Name, len(want), want["driver_version"])
		for name, a := range g.Attributes {
			t.Logf("    %-24s %s", name, a.GoString())
		}
		r, err := p.Reserve([]string{d.ID})
		must.NoError(t, err)
		must.Eq(t, d.ID, r.Envs["NVIDIA_VISIBLE_DEVICES"])
		for _, node := range r.Devices {
			t.Logf("    node %s", node.HostPath)
		}
	}
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

// compare looks at one attribute. Both numbers and words are compared as what
// they mean: nvidia-smi writes 700.00 for 700.
func compare(t *testing.T, field, want string, got *structs.Attribute) {
	t.Helper()
	if want == "" {
		return
	}
	must.NotNil(t, got, must.Sprintf("%s is %s for nvidia-smi, and missing here", field, want))
	if got.String != nil {
		must.Eq(t, want, *got.String, must.Sprint(field))
		return
	}
	number, err := strconv.ParseFloat(want, 64)
	must.NoError(t, err, must.Sprint(field))
	if got.Int != nil {
		must.Between(t, number-1, float64(*got.Int), number+1, must.Sprint(field))
		return
	}
	must.Eq(t, number, *got.Float, must.Sprint(field))
}

func near(t *testing.T, field string, want map[string]string, got *structs.StatValue, by float64) {
	t.Helper()
	if want[field] == "" || got.IntNumeratorVal == nil {
		return
	}
	number, err := strconv.ParseFloat(want[field], 64)
	must.NoError(t, err)
	must.Between(t, number-by, float64(*got.IntNumeratorVal), number+by, must.Sprint(field))
}

// The link matrix beside that of nvidia-smi topo -m.
func TestGPUTopology(t *testing.T) {
	path, err := binary()
	must.NoError(t, err)
	out, err := exec.Command(path, "topo", "-json").Output()
	must.NoError(t, err)
	var report plugin.Report
	must.NoError(t, json.Unmarshal(out, &report))
	table, err := exec.Command("nvidia-smi", "topo", "-m").Output()
	must.NoError(t, err)
	n := len(querySMI(t))
	if len(report.GPUs) != n {
		t.Skip("GPUs are cut into instances, which nvidia-smi topo does not show")
	}
	for line := range strings.Lines(string(table)) {
		cells := strings.Fields(line)
		if len(cells) <= n {
			continue
		}
		label, found := strings.CutPrefix(cells[0], "GPU")
		i, err := strconv.Atoi(label)
		if !found || err != nil || i >= n || cells[i+1] != "X" {
			continue // the head, a network card, the legend
		}
		for j := range n {
			must.Eq(t, cells[j+1], strings.TrimSuffix(report.Links[i][j], "s"), must.Sprintf("GPU%d to GPU%d", i, j))
		}
	}
	t.Logf("%s\n%s", table, report.Topology)
}

// A task of a real Nomad gets a real GPU.
func TestGPUInNomad(t *testing.T) {
	nomad, err := filepath.Abs("../../bin/nomad")
	must.NoError(t, err)
	if _, err := os.Stat(nomad); err != nil {
		t.Skip("there is no bin/nomad; make nomad builds it")
	}
	path, err := binary()
	must.NoError(t, err)
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
	var a *api.Allocation
	for _, a = range r.run("smi", 1, job("smi", 1, `device "nvidia/gpu" { count = 1 }`, "nvidia-smi -L")) {
		must.Eq(t, gpus(a), []string{r.environment(a)["NVIDIA_VISIBLE_DEVICES"]})
	}
	text, err := c.Logs(a.ID, "t", "stdout")
	must.NoError(t, err)
	t.Log(fmt.Sprint("the task saw:\n", text))
}
