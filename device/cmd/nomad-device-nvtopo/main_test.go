// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inspect"
	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

// on makes commands of this process run on a stub machine.
func on(t *testing.T, machine string) *nvmltest.Machine {
	t.Helper()
	hw := nvmltest.New(t, machine)
	hw.Setenv()
	t.Setenv(envLibrary, hw.Library())
	return hw
}

func run(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	status = command(args, &o, &e)
	return status, o.String(), e.String()
}

func TestTopo(t *testing.T) {
	on(t, "two-boards-a100")
	status, out, _ := run(t, "topo")
	must.Eq(t, 0, status)
	must.StrHasPrefix(t, strings.TrimLeft(`
      GPU0  GPU4  GPU1  GPU5  GPU2  GPU6  GPU3  GPU7  NUMA Affinity  Island
GPU0  X     SYS   NV4   SYS   NV4   SYS   NV4   SYS   0              nvlink0
GPU4  SYS   X     SYS   NV4   SYS   NV4   SYS   NV4   1              nvlink1
GPU1  NV4   SYS   X     SYS   NV4   SYS   NV4   SYS   0              nvlink0
`, "\n"), out)
	must.StrContains(t, out, "nvlink1   of 4, 400 GB/s each way between its halves")
}

func TestTopoJSON(t *testing.T) {
	hw := on(t, "nvl72-tray")
	status, out, _ := run(t, "topo", "-json")
	must.Eq(t, 0, status)
	var r inspect.Report
	must.NoError(t, json.Unmarshal([]byte(out), &r))
	must.Eq(t, "570.86.15", r.Driver)
	must.Eq(t, "4;6xNV18s", r.Topology)
	must.Eq(t, []string{"NV18s", "X", "NV18s", "NV18s"}, r.Links[1])
	must.Eq(t, hw.UUIDs()[3], r.GPUs[3].UUID)
	must.Eq(t, "NVIDIA GB200 nvlink0", r.GPUs[3].Groups[inventory.GroupByNVLink])
	must.Eq(t, 18, r.GPUs[3].NVLinks)
	must.Eq(t, 900_000, r.GPUs[3].NVLinkMBps)
	must.Eq(t, "pci0019:00", r.GPUs[3].Root)
	must.Eq(t, "0000:f3:00.0", r.GPUs[3].Switch)
	must.Eq(t, 1, r.GPUs[3].NUMA)
	must.Eq(t, []inspect.Island{{Name: "nvlink0", GPUs: []int{0, 1, 2, 3}, BisectionMBps: 1_800_000}}, r.Islands)
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		machine string
		change  func(*nvmltest.Machine)
		want    string
	}{
		"no driver":     {"one-t4", func(m *nvmltest.Machine) { m.Unload() }, "modprobe nvidia"},
		"half upgraded": {"one-t4", func(m *nvmltest.Machine) { m.Fail(18) }, "reboot"},
		"no GPU":        {"none", nil, "there is no GPU"},
		"lost GPU":      {"hgx-h100", func(m *nvmltest.Machine) { m.Lose(2) }, "fallen off the bus"},
		"no fabric": {"hgx-h100", func(m *nvmltest.Machine) {
			m.Set(0, "fabric", "00000000000000000000000000000000 0 1 0")
		}, "nvidia-fabricmanager"},
		"a link down": {"dgx-1v", func(m *nvmltest.Machine) {
			m.Set(1, "nolinks", "0")
			m.Set(1, "nvlink_version", "2")
		}, "0 NVLinks are up, another Tesla V100-SXM2-32GB has 6"},
		"bad memory":      {"hgx-h100", func(m *nvmltest.Machine) { m.Set(3, "remap_failed", "1") }, "have the GPU replaced"},
		"MIG but empty":   {"mig-a100", func(m *nvmltest.Machine) { m.Set(0, "nomig", "1") }, "nvidia-smi mig -cgi"},
		"no device nodes": {"one-t4", nil, "/dev/nvidia-uvm is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			hw := on(t, tc.machine)
			if tc.change != nil {
				tc.change(hw)
			}
			status, out, _ := run(t, "check")
			must.Eq(t, 1, status)
			must.StrContains(t, out, tc.want)
		})
	}
}

func TestCheckWithoutLibrary(t *testing.T) {
	t.Setenv(envLibrary, filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	status, out, _ := run(t, "check")
	must.Eq(t, 1, status)
	must.StrContains(t, out, "install the NVIDIA driver")
	must.StrContains(t, out, os.Getenv(envLibrary))

	status, _, errs := run(t, "topo")
	must.Eq(t, 1, status)
	must.StrContains(t, errs, "cannot be loaded")
}

func TestTopoOfMIG(t *testing.T) {
	on(t, "mig-a100")
	status, out, _ := run(t, "topo")
	must.Eq(t, 0, status)
	must.StrContains(t, out, "\nMIG0/13/0  PIX       PIX")
	must.StrContains(t, out, "\nGPU1       PIX       PIX")
	must.StrContains(t, out, "nvlink0   of 7 instances of one GPU, which have no NVLink (MIG)\n    MIG0/7/0   MIG-f4000000-")
	must.StrContains(t, out, "nvlink1   of 1\n    GPU1       GPU-f4000000-")
}

// GPUs have the same numbers as in nvidia-smi, so that no one resets the wrong one.
func TestTopoWithALostGPU(t *testing.T) {
	hw := on(t, "hgx-h100")
	hw.Lose(3)
	status, out, _ := run(t, "topo")
	must.Eq(t, 1, status)
	must.StrContains(t, out, "GPU2  GPU4  GPU5")
	must.StrContains(t, out, "    GPU4  "+hw.UUIDs()[4])
	must.StrContains(t, out, "\nunreadable: GPU 3: ")

	status, out, _ = run(t, "topo", "-json")
	must.Eq(t, 1, status)
	var r inspect.Report
	must.NoError(t, json.Unmarshal([]byte(out), &r))
	must.Eq(t, 4, r.GPUs[3].Index)

	_, out, _ = run(t, "check")
	must.StrContains(t, out, "nvidia-smi -r -i 3")
}

func TestTopoWithoutGPUs(t *testing.T) {
	hw := on(t, "none")
	status, out, _ := run(t, "topo")
	must.Eq(t, 0, status)
	must.Eq(t, "Driver 550.54.15 lists no GPU that can be used.\n", out)
	_, out, _ = run(t, "topo", "-json")
	must.StrContains(t, out, `"gpus": []`)
	hw.Unload()
	status, _, errs := run(t, "topo")
	must.Eq(t, 1, status)
	must.StrContains(t, errs, "nomad-device-nvtopo check reports what to do")
}

// A problem that several GPUs share is reported once.
func TestCheckReportsThingsOnce(t *testing.T) {
	hw := on(t, "pcie-l40s")
	hw.Lose(5)
	status, out, _ := run(t, "check")
	must.Eq(t, 1, status)
	must.Eq(t, 1, strings.Count(out, "persistence mode is off"))
	id := hw.UUIDs()
	must.StrContains(t, out, "note     persistence mode is off\n         "+id[0]+"\n         "+id[1]+"\n")
}

func TestCheckOfAGoodMachine(t *testing.T) {
	on(t, "hgx-h100")
	dev := filepath.Join(os.Getenv(envRoot), "dev")
	must.NoError(t, os.MkdirAll(dev, 0o755))
	for _, name := range []string{"nvidiactl", "nvidia-uvm"} {
		must.NoError(t, os.WriteFile(filepath.Join(dev, name), nil, 0o600))
	}
	status, out, _ := run(t, "check")
	must.Eq(t, 0, status)
	must.StrContains(t, out, "ok       GPUs can be used")
}

// The check reads files of the container runtimes, and starts no runtime.
func TestCheckOfContainerRuntimes(t *testing.T) {
	const uuids = "kind: nvidia.com/gpu\ndevices:\n- name: %s\n"
	for name, tc := range map[string]struct {
		files map[string]string // %s is the GPU's UUID
		want  []string
	}{
		"neither": {nil, []string{"docker is not installed", "podman is not installed"}},
		"docker without the runtime": {
			map[string]string{"usr/bin/dockerd": ""},
			[]string{"docker does not give tasks their GPUs: /etc/docker/daemon.json has no runtime nvidia", "nvidia-ctk runtime configure --runtime=docker"},
		},
		"docker with a runtime that is gone": {
			map[string]string{"usr/bin/dockerd": "", "etc/docker/daemon.json": `{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}`},
			[]string{`its runtime nvidia is "nvidia-container-runtime", which is not there`},
		},
		"docker with a broken file": {
			map[string]string{"usr/bin/dockerd": "", "etc/docker/daemon.json": `{"runtimes": []`},
			[]string{"docker: /etc/docker/daemon.json: unexpected end of JSON input"},
		},
		"docker": {
			map[string]string{"usr/sbin/dockerd": "", "usr/bin/nvidia-container-runtime": "", "etc/docker/daemon.json": `{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}`},
			[]string{"docker gives tasks their GPUs, by the runtime nvidia"},
		},
		"podman without CDI": {
			map[string]string{"usr/bin/podman": ""},
			[]string{"podman does not give tasks their GPUs: there is no CDI specification", "nvidia-ctk cdi generate --device-name-strategy=uuid"},
		},
		"podman with names by number": {
			map[string]string{"usr/bin/podman": "", "etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n"},
			[]string{"podman does not give tasks these GPUs: the CDI specification does not have their UUIDs as names\n         %s\n"},
		},
		"podman": {
			map[string]string{"usr/bin/podman": "", "var/run/cdi/nvidia.yaml": uuids},
			[]string{"podman gives tasks their GPUs, by CDI", `devices = ["${KOLO_CDI_0}"]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hw := on(t, "one-t4")
			fill := func(text string) string { return strings.ReplaceAll(text, "%s", hw.UUIDs()[0]) }
			for path, text := range tc.files {
				path = filepath.Join(os.Getenv(envRoot), path)
				must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.NoError(t, os.WriteFile(path, []byte(fill(text)), 0o600))
			}
			_, out, _ := run(t, "check")
			for _, want := range tc.want {
				must.StrContains(t, out, fill(want))
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	on(t, "one-t4")
	for line, want := range map[string]struct {
		status    int
		out, errs string
	}{
		"help":         {0, "Usage: nomad-device-nvtopo <command>", ""},
		"-h":           {0, "Usage: ", ""},
		"-help":        {0, "Usage: ", ""},
		"--help":       {0, "Usage: ", ""},
		"topo -help":   {0, "Usage: ", ""},
		"check -h":     {0, "Usage: ", ""},
		"version":      {0, "nomad-device-nvtopo " + buildinfo.Version(), ""},
		"--version":    {0, "nomad-device-nvtopo " + buildinfo.Version(), ""},
		"frobnicate":   {2, "", "nomad-device-nvtopo frobnicate: wrong usage: there is no such command"},
		"-json":        {2, "", "there is no such command"},
		"topo -x":      {2, "", "nomad-device-nvtopo topo: wrong usage: flag provided but not defined: -x"},
		"topo extra":   {2, "", `unexpected "extra"`},
		"topo -json x": {2, "", `unexpected "x"`},
		"check extra":  {2, "", `unexpected "extra"`},
		"check -json":  {2, "", "not defined: -json"},
		"version x":    {2, "", `unexpected "x"`},
	} {
		t.Run(line, func(t *testing.T) {
			status, out, errs := run(t, strings.Fields(line)...)
			must.Eq(t, want.status, status)
			must.StrContains(t, out, want.out)
			must.StrContains(t, errs, want.errs)
			must.Eq(t, want.out == "", out == "")
			must.Eq(t, want.errs == "", errs == "")
		})
	}
}
