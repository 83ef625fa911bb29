// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// A dry run of `make gpu`: the same tests on stubs for NVML and nvidia-smi.
// It shows that they find each difference, agree where there is none, and end
// with the right status. It cannot show that NVIDIA's own programs report what
// the stubs report.
func TestGPUDryRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := func(args ...string) {
		t.Helper()
		out, err := exec.Command("go", args...).CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
	}
	build("build", "-o", filepath.Join(dir, "nvidia-smi"), "../../device/nvml/nvmltest/cmd/nvidia-smi")
	tests := filepath.Join(dir, "gpu.test")
	build("test", "-tags", "gpu", "-c", "-o", tests, ".")
	on := func(t *testing.T, machine, lies string, args ...string) (string, error) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), nvmltest.New(t, machine).Env()...)
		cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "NVMLTEST_SMI_LIE="+lies)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	compare := []string{tests, "-test.v", "-test.run", "TestGPUComparedWithNvidiaSMI|TestGPUTopology"}

	for machine, agreements := range map[string]int{
		"hgx-h100": 8 * 22, "dgx-1v": 8 * 22, "two-boards-a100": 8 * 22, "pcie-l40s": 8 * 22, "nvl72-tray": 4 * 18,
		"mig-a100": 7 + 15, "one-t4": 15,
	} {
		t.Run("agrees on "+machine, func(t *testing.T) {
			t.Parallel()
			out, err := on(t, machine, "", compare...)
			must.NoError(t, err, must.Sprint(out))
			must.GreaterEq(t, agreements, strings.Count(out, " for both"), must.Sprint(out))
			must.StrContains(t, out, "this nvidia-smi does not know clocks_throttle_reasons.active")
		})
	}
	t.Run("reports each difference", func(t *testing.T) {
		t.Parallel()
		lies := map[string]string{
			"name": "NVIDIA H200", "pci.bus_id": "00000000:2B:00.0", "memory.total": "81558", "enforced.power.limit": "650.00",
			"clocks.max.graphics": "1979", "clocks.max.memory": "2600", "pcie.link.gen.max": "4", "pcie.link.width.max": "8",
			"display_mode": "Enabled", "persistence_mode": "Disabled", "ecc.mode.current": "Disabled", "compute_cap": "9.1",
			"driver_version": "550.54.16", "temperature.gpu": "45", "temperature.memory": "75",
			"power.draw":  "700.10",
			"memory.used": "1400", "ecc.errors.uncorrected.volatile.total": "1",
			"clocks_event_reasons.active": "0x0000000000000044",
		}
		all := []string{"matrix", "numa", "nvlinks"}
		for field, value := range lies {
			all = append(all, field+"="+value)
		}
		out, err := on(t, "hgx-h100", strings.Join(all, ";"), compare...)
		must.Error(t, err)
		for field, value := range lies {
			must.True(t, slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
				return strings.Contains(line, field+" is ") && strings.Contains(strings.ToUpper(line), strings.ToUpper(strings.TrimPrefix(value, "0000"))) &&
					strings.Contains(line, "for the plugin")
			}), must.Sprintf("nothing is reported of %s\n%s", field, out))
		}
		must.StrContains(t, out, `topo, GPU1 to GPU0 is "NV3" for nvidia-smi, "NV18" for the plugin`)
		must.StrContains(t, out, `topo, NUMA Affinity is "5" for nvidia-smi, "0" for the plugin`)
		must.StrContains(t, out, `nvlink, links that are up is "17" for nvidia-smi, "18" for the plugin`)
		must.StrContains(t, out, "the NVLinks carry 451554 MB/s for nvidia-smi, 478116 for the plugin")
	})
	t.Run("reports GPUs that only one has", func(t *testing.T) {
		t.Parallel()
		out, err := on(t, "one-t4", "uuid=GPU-0", compare...)
		must.Error(t, err)
		must.StrContains(t, out, "GPU-0 is not fingerprinted")
		out, err = on(t, "mig-a100", "instances", compare...)
		must.Error(t, err)
		must.StrContains(t, out, "the plugin offers 8 devices, nvidia-smi lists 7")
	})
	t.Run("as a whole, with Nomad", func(t *testing.T) {
		if _, err := os.Stat("../../bin/nomad"); err != nil {
			t.Skip("there is no bin/nomad; make nomad builds it")
		}
		t.Parallel()
		out, err := on(t, "hgx-h100", "", "make", "-C", "../..", "gpu")
		must.NoError(t, err, must.Sprint(out))
		_, saw, _ := strings.Cut(out, "the task saw:")
		must.StrContains(t, saw, "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a1000000-0000-4000-8000-000000000000)")
		must.StrContains(t, out, "first fingerprint: ")

		// The same on a machine without Go.
		out, err = on(t, "one-t4", "", "make", "-C", "../..", "gpu-kit")
		must.NoError(t, err, must.Sprint(out))
		there := t.TempDir()
		out, err = on(t, "one-t4", "", "tar", "-xzf", "../../bin/gpu-kit.tar.gz", "-C", there)
		must.NoError(t, err, must.Sprint(out))
		out, err = on(t, "one-t4", "", "env", "-C", there, "PATH="+dir+":/usr/bin:/bin", "gpu-kit/gpu.test", "-test.v")
		must.NoError(t, err, must.Sprint(out))
		must.StrContains(t, out, "the task saw:")
	})
	t.Run("without nvidia-smi", func(t *testing.T) {
		if _, err := exec.LookPath("nvidia-smi"); err == nil {
			t.Skip("this machine has one")
		}
		out, err := exec.Command("make", "-C", "../..", "gpu").CombinedOutput()
		must.Error(t, err)
		must.StrContains(t, string(out), "make gpu: there is no nvidia-smi")
	})
}

// Placeholders of nvidia-smi for unknown values are no difference.
func TestParseQuery(t *testing.T) {
	gpus, err := parseQuery("GPU-1, NVIDIA H200, 700.00, [N/A]\nGPU-2, N/A, [Not Supported], [Requested functionality has been deprecated]\n",
		[]string{"uuid", "name", "power.draw", "display_mode"})
	must.NoError(t, err)
	must.Eq(t, []map[string]string{
		{"uuid": "GPU-1", "name": "NVIDIA H200", "power.draw": "700.00"},
		{"uuid": "GPU-2"},
	}, gpus)
	_, err = parseQuery("GPU-1\n", []string{"uuid", "name"})
	must.Error(t, err)
}

// The table of one GPU, and one with network cards and without NUMA nodes.
func TestParseTopo(t *testing.T) {
	one, err := parseTopo("\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t0-15\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n")
	must.NoError(t, err)
	must.Eq(t, links{cells: [][]string{{"X"}}, numa: []string{"0"}}, one)

	two, err := parseTopo("\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV12\tPXB\t0-15\nGPU1\tNV12\t X \tSYS\t0-15\nNIC0\tPXB\tSYS\t X \n")
	must.NoError(t, err)
	must.Eq(t, links{cells: [][]string{{"X", "NV12"}, {"NV12", "X"}}, numa: []string{"", ""}}, two)

	for name, text := range map[string]string{
		"nothing":    "",
		"a row less": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-15\n",
		"cut off":    "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \nGPU1\tNV12\t X \t0-15\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTopo(text)
			must.Error(t, err)
		})
	}
}

// Links that are down have no rate; GPUs in MIG mode list their instances.
func TestParseLists(t *testing.T) {
	up := parseNVLinks("GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 26.562 GB/s\n" +
		"GPU 1: NVIDIA H200 (UUID: GPU-2)\n")
	must.Eq(t, map[string]ports{"GPU-1": {up: 2, gbps: 53.124}}, up)
	must.Eq(t, []instance{{uuid: "MIG-3", profile: "1g.18gb", parent: "GPU-1"}},
		parseList("GPU 0: NVIDIA H200 (UUID: GPU-1)\n  MIG 1g.18gb     Device  0: (UUID: MIG-3)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"))
}
