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
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// Finding is something about the set-up of a machine.
type Finding struct {
	// Problem tells that GPUs cannot be used, or not well, until it is solved;
	// otherwise it is a remark.
	Problem bool
	// What was found, and what to do about it.
	What, Do string
	// Where are the UUIDs of the GPUs concerned; empty for the machine.
	Where []string
}

// String is the finding for people, over several lines.
func (f Finding) String() string {
	kind := "note"
	if f.Problem {
		kind = "problem"
	}
	lines := slices.Concat([]string{fmt.Sprintf("%-8s %s", kind, f.What)}, f.Where, []string{f.Do})
	return strings.Join(lines, "\n         ")
}

// findings collects them, those that several GPUs share as one.
type findings []Finding

func (fs *findings) add(f Finding) {
	for i, old := range *fs {
		if old.Problem == f.Problem && old.What == f.What && old.Do == f.Do {
			(*fs)[i].Where = append(old.Where, f.Where...)
			return
		}
	}
	*fs = append(*fs, f)
}

func (fs *findings) problem(do, format string, args ...any) {
	fs.add(Finding{Problem: true, What: fmt.Sprintf(format, args...), Do: do})
}

func (fs *findings) remark(do, format string, args ...any) {
	fs.add(Finding{What: fmt.Sprintf(format, args...), Do: do})
}

// Check looks at everything that GPUs in Nomad need on this machine. Root is
// put before /dev and /etc; beside is the folder in which Nomad finds plugins.
func Check(lib nvml.Library, root, beside string) []Finding {
	var found findings
	if _, err := os.Stat(filepath.Join(beside, "nomad-device-nvidia")); err == nil {
		found.remark("remove it and its plugin block: of the two Nomad runs only the one with the higher version, which is this one",
			"nomad-device-nvidia is in %s as well", beside)
	}
	if err := lib.Open(); err != nil {
		found.problem(adviceOpen(err), "NVML does not start: %v", err)
		return found
	}
	defer lib.Close() //nolint:errcheck // the process ends soon
	m, err := readMachine(lib, machine{}, nil)
	if err != nil {
		found.problem(adviceOpen(err), "NVML fails: %v", err)
		return found
	}
	for _, i := range slices.Sorted(maps.Keys(m.unread)) {
		found.problem(fmt.Sprintf(adviceBroken, strconv.Itoa(i)), "%v", m.unread[i])
	}
	if m.listed == 0 {
		found.problem("see lspci -d 10de: and dmesg: the driver works, but found no GPU", "there is no GPU")
	}
	for _, c := range m.cards {
		var of findings
		of.checkCard(c, m.cards)
		for _, f := range of {
			f.Where = []string{c.facts.UUID}
			found.add(f)
		}
	}
	found.checkFiles(root, &m)
	return found
}

// adviceBroken is for a GPU by its number or PCI address.
const adviceBroken = "see dmesg for XID messages; drain the node and reset the GPU: nvidia-smi -r -i %s; or reboot"

// adviceOpen says what to do when NVML does not start.
func adviceOpen(err error) string {
	switch {
	case errors.Is(err, nvml.ErrLibraryNotFound):
		return "install the NVIDIA driver; if it is installed, make libnvidia-ml.so.1 known to ldconfig, " +
			"or name its file in KOLO_NVML_LIBRARY in the environment of the Nomad agent (where that is set, see what it names)"
	case errors.Is(err, nvml.ErrDriverNotLoaded):
		return "load the driver: modprobe nvidia; dmesg says why it does not"
	case errors.Is(err, nvml.ErrVersionMismatch):
		return "the driver was upgraded while the old one is loaded: reboot, or unload and load the nvidia modules"
	case errors.Is(err, nvml.ErrNoPermission), errors.Is(err, nvml.ErrBlockedByOS):
		return "the Nomad agent must run as root, and its cgroup must allow /dev/nvidia*"
	default:
		return "see dmesg"
	}
}

func (fs *findings) checkCard(c *card, all []*card) {
	f := c.facts
	if f.Persistence != nil && !*f.Persistence {
		fs.remark("run nvidia-persistenced: without it the first task on an idle GPU waits for the driver",
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
		if o.facts.Name == f.Name && len(o.facts.Ports) > len(f.Ports) {
			fs.problem("see nvidia-smi nvlink -s and dmesg (XID 74); a bridge or board may be loose",
				"%d NVLinks are up, another %s has %d", len(f.Ports), f.Name, len(o.facts.Ports))
			break
		}
	}
	if f.MIG && len(f.Instances) == 0 {
		fs.problem("make instances with nvidia-smi mig -cgi … -C, or turn MIG off with nvidia-smi -mig 0",
			"MIG is on, but there are no instances")
	}
	s, err := sampleWithin(c.gpu, checkLimit)
	if err != nil {
		fs.problem(fmt.Sprintf(adviceBroken, f.Bus), "the GPU does not answer: %s", plain(err))
		return
	}
	is := func(b *bool) bool { return b != nil && *b }
	if is(s.RemapFailed) {
		fs.problem("have the GPU replaced", "bad memory rows could not be remapped")
	}
	if is(s.RemapPending) || is(s.RetiredPending) {
		fs.remark("at the next occasion, drain the node and reset the GPU with nvidia-smi -r",
			"bad memory waits for a reset to be taken out of use")
	}
	if s.Recovery != "" {
		fs.problem("drain the node and do it", "%s", s.Recovery)
	}
	if s.ECCUncorrected != nil && *s.ECCUncorrected > 0 {
		fs.remark("if it goes on, have the GPU tested with dcgmi diag",
			"%d memory errors since the driver was loaded that ECC could not correct", *s.ECCUncorrected)
	}
}

// checkLimit is how long a GPU may take to answer.
const checkLimit = 15 * time.Second

// sampleWithin leaves a call that hangs behind, for the process ends soon.
func sampleWithin(gpu nvml.GPU, limit time.Duration) (nvml.Sample, error) {
	answer := make(chan sampled, 1)
	go func() {
		s, err := gpu.Sample(true)
		answer <- sampled{sample: s, err: err}
	}()
	select {
	case r := <-answer:
		return r.sample, r.err
	case <-time.After(limit):
		return nvml.Sample{}, nvml.ErrHung
	}
}

func (fs *findings) checkFiles(root string, m *machine) {
	missing := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, "/dev", name))
		return err != nil
	}
	if m.listed == 0 {
		return
	}
	if missing("nvidiactl") {
		fs.problem("run nvidia-modprobe, or nvidia-smi as root", "/dev/nvidiactl is missing")
	}
	if missing("nvidia-uvm") {
		fs.problem("run nvidia-modprobe -u -c 0 at boot: CUDA needs it", "/dev/nvidia-uvm is missing")
	}
	d := Device{opts: Options{Root: root}}
	if !d.hasCDI() {
		fs.remark("only for runtimes that use CDI: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
			"there is no CDI specification of the GPUs")
	}
}
