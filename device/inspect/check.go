// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// Check checks everything that GPUs in Nomad need on this machine. root is
// prepended to /dev and /etc; pluginDir is Nomad's folder for plugins.
func Check(lib nvml.Library, root, pluginDir string) []Finding {
	var found findings
	if _, err := os.Stat(filepath.Join(pluginDir, "nomad-device-nvidia")); err == nil {
		found.note("remove it and its plugin block: of the two Nomad runs only the one with the higher version, which is this one",
			"nomad-device-nvidia is in %s as well", pluginDir)
	}
	if err := lib.Open(); err != nil {
		found.problem(adviceOpen(err), "NVML does not start: %v", err)
		return found
	}
	defer lib.Close() //nolint:errcheck // the process ends soon
	inv, err := inventory.Read(lib, inventory.Inventory{}, nil)
	if err != nil {
		found.problem(adviceOpen(err), "NVML fails: %v", err)
		return found
	}
	for _, i := range slices.Sorted(maps.Keys(inv.Unreadable)) {
		found.problem(fmt.Sprintf(adviceBroken, strconv.Itoa(i)), "%v", inv.Unreadable[i])
	}
	if inv.Listed == 0 {
		found.problem("see lspci -d 10de: and dmesg: the driver works, but found no GPU", "there is no GPU")
	}
	for _, g := range inv.GPUs {
		var ofGPU findings
		ofGPU.checkFacts(g.Facts, inv.GPUs)
		ofGPU.checkSample(g)
		for _, f := range ofGPU {
			f.Where = []string{g.Facts.UUID}
			found.add(f)
		}
	}
	if inv.Listed > 0 {
		found.checkFiles(root)
		found.checkRuntimes(root, inv.GPUs)
	}
	return found
}

// adviceBroken holds a placeholder for a GPU's number or PCI address.
const adviceBroken = "see dmesg for XID messages; drain the node and reset the GPU: nvidia-smi -r -i %s; or reboot"

// adviceOpen returns the remedy if NVML does not start.
func adviceOpen(err error) string {
	switch {
	case errors.Is(err, nvml.ErrLibraryNotFound):
		return "install the NVIDIA driver; if it is installed, make libnvidia-ml.so.1 known to ldconfig, " +
			"or set KOLO_NVML_LIBRARY to its file in the environment of the Nomad agent (if it is set, see what it names)"
	case errors.Is(err, nvml.ErrDriverNotLoaded):
		return "load the driver: modprobe nvidia; see dmesg if it fails"
	case errors.Is(err, nvml.ErrVersionMismatch):
		return "the driver was upgraded while the old one is loaded: reboot, or unload and load the nvidia modules"
	case errors.Is(err, nvml.ErrNoPermission), errors.Is(err, nvml.ErrBlockedByOS):
		return "the Nomad agent must run as root, and its cgroup must allow /dev/nvidia*"
	default:
		return "see dmesg"
	}
}

// checkFacts checks the rarely changing facts of a GPU, compared with all GPUs.
func (fs *findings) checkFacts(f nvml.Facts, all []*inventory.GPU) {
	if f.Persistence != nil && !*f.Persistence {
		fs.note("run nvidia-persistenced: without it the first task on an idle GPU waits for the driver",
			"persistence mode is off")
	}
	if f.Fabric != nil && f.Fabric.Problem != "" {
		advice := "see the fabric manager's log, and reset the GPU: nvidia-smi --gpu-reset -i " + f.Bus
		if !f.Fabric.Ready {
			advice = "start nvidia-fabricmanager, in the version of the driver; CUDA does not start without it"
		}
		fs.problem(advice, "NVLink fabric: %s", f.Fabric.Problem)
	}
	for _, o := range all {
		if o.Facts.Name == f.Name && len(o.Facts.Ports) > len(f.Ports) {
			fs.problem("see nvidia-smi nvlink -s and dmesg (XID 74); a bridge or board may be loose",
				"%d NVLinks are up, another %s has %d", len(f.Ports), f.Name, len(o.Facts.Ports))
			break
		}
	}
	if f.MIG && len(f.Instances) == 0 {
		fs.problem("make instances with nvidia-smi mig -cgi … -C, or turn MIG off with nvidia-smi -mig 0",
			"MIG is on, but there are no instances")
	}
}

// checkSample checks a GPU's frequently changing values.
func (fs *findings) checkSample(g *inventory.GPU) {
	s, err := sampleWithin(g.Handle, sampleLimit)
	if err != nil {
		fs.problem(fmt.Sprintf(adviceBroken, g.Facts.Bus), "the GPU does not answer: %s", nvml.Cause(err))
		return
	}
	is := func(b *bool) bool { return b != nil && *b }
	if is(s.RemapFailed) {
		fs.problem("have the GPU replaced", "bad memory rows could not be remapped")
	}
	if is(s.RemapPending) || is(s.RetiredPending) {
		fs.note("at the next occasion, drain the node and reset the GPU with nvidia-smi -r",
			"bad memory waits for a reset to be taken out of use")
	}
	if s.Recovery != "" {
		fs.problem("drain the node and do it", "%s", s.Recovery)
	}
	if s.ECCUncorrected != nil && *s.ECCUncorrected > 0 {
		fs.note("if it goes on, have the GPU tested with dcgmi diag",
			"%d memory errors since the driver was loaded that ECC could not correct", *s.ECCUncorrected)
	}
}

// sampleLimit bounds the time that a GPU may take to answer.
const sampleLimit = 15 * time.Second

// sampleWithin abandons a call that hangs, because the process ends soon anyway.
func sampleWithin(gpu nvml.GPU, limit time.Duration) (nvml.Sample, error) {
	type answer struct {
		sample nvml.Sample
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		s, err := gpu.Sample(true)
		answers <- answer{s, err}
	}()
	select {
	case a := <-answers:
		return a.sample, a.err
	case <-time.After(limit):
		return nvml.Sample{}, nvml.ErrHung
	}
}

// checkFiles checks the host's files that tasks need.
func (fs *findings) checkFiles(root string) {
	missing := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, "/dev", name))
		return err != nil
	}
	if missing("nvidiactl") {
		fs.problem("run nvidia-modprobe, or nvidia-smi as root", "/dev/nvidiactl is missing")
	}
	if missing("nvidia-uvm") {
		fs.problem("run nvidia-modprobe -u -c 0 at boot: CUDA needs it", "/dev/nvidia-uvm is missing")
	}
}
