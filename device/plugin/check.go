// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// Finding is something about the set-up of a machine.
type Finding struct {
	// Problem tells that GPUs cannot be used, or not well, until it is solved;
	// otherwise it is a remark.
	Problem bool
	// What was found, and what to do about it.
	What, Do string
}

// Check looks at everything that GPUs in Nomad need on this machine. Root is
// put before /dev and /etc; beside is the folder in which Nomad finds plugins.
func Check(lib nvml.Library, root, beside string) []Finding {
	var found []Finding
	problem := func(do, format string, args ...any) {
		found = append(found, Finding{Problem: true, What: fmt.Sprintf(format, args...), Do: do})
	}
	remark := func(do, format string, args ...any) {
		found = append(found, Finding{What: fmt.Sprintf(format, args...), Do: do})
	}
	if _, err := os.Stat(filepath.Join(beside, "nomad-device-nvidia")); err == nil {
		problem("remove nomad-device-nvidia and its plugin block: both would offer the same GPUs",
			"nomad-device-nvidia is in %s as well", beside)
	}
	if err := lib.Open(); err != nil {
		problem(adviceOpen(err), "NVML does not start: %v", err)
		return found
	}
	defer lib.Close() //nolint:errcheck // the process ends soon
	m, err := readMachine(lib, machine{}, nil)
	if err != nil {
		problem(adviceOpen(err), "NVML fails: %v", err)
		return found
	}
	for _, err := range m.unread {
		problem("see dmesg for XID messages; reset the GPU with nvidia-smi -r, or reboot", "%v", err)
	}
	if m.listed == 0 {
		problem("see lspci -d 10de: and dmesg: the driver works, but found no GPU", "there is no GPU")
	}
	for _, c := range m.cards {
		checkCard(c, m.cards, problem, remark)
	}
	checkFiles(root, &m, problem, remark)
	return found
}

// adviceOpen says what to do when NVML does not start.
func adviceOpen(err error) string {
	switch {
	case errors.Is(err, nvml.ErrLibraryNotFound):
		return "install the NVIDIA driver; if it is installed, make libnvidia-ml.so.1 known to ldconfig, " +
			"or name it in KOLO_NVML_LIBRARY in the environment of the Nomad agent"
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

type report func(do, format string, args ...any)

func checkCard(c *card, all []*card, problem, remark report) {
	f := c.facts
	if f.Persistence != nil && !*f.Persistence {
		remark("run nvidia-persistenced: without it the first task on an idle GPU waits for the driver",
			"%s: persistence mode is off", f.UUID)
	}
	if f.Fabric != nil && !f.Fabric.Ready {
		problem("start nvidia-fabricmanager, in the version of the driver; CUDA does not start without it",
			"%s: NVLink fabric: %s", f.UUID, f.Fabric.Problem)
	}
	for _, o := range all {
		if o.facts.Name == f.Name && len(o.facts.Ports) > len(f.Ports) {
			problem("see nvidia-smi nvlink -s and dmesg (XID 74); a bridge or board may be loose",
				"%s: %d NVLinks are up, another %s has %d", f.UUID, len(f.Ports), f.Name, len(o.facts.Ports))
			break
		}
	}
	if f.MIG && len(f.Instances) == 0 {
		problem("make instances with nvidia-smi mig -cgi … -C, or turn MIG off with nvidia-smi -mig 0",
			"%s: MIG is on, but there are no instances", f.UUID)
	}
	s, err := c.gpu.Sample(true)
	if err != nil {
		problem("see dmesg for XID messages; reset the GPU with nvidia-smi -r, or reboot", "%s: %v", f.UUID, err)
		return
	}
	is := func(b *bool) bool { return b != nil && *b }
	if is(s.RemapFailed) {
		problem("have the GPU replaced", "%s: bad memory rows could not be remapped", f.UUID)
	}
	if is(s.RemapPending) || is(s.RetiredPending) {
		remark("at the next occasion, drain the node and reset the GPU with nvidia-smi -r",
			"%s: bad memory waits for a reset to be taken out of use", f.UUID)
	}
	if s.Recovery != "" {
		problem("drain the node and do it", "%s: %s", f.UUID, s.Recovery)
	}
	if s.ECCUncorrected != nil && *s.ECCUncorrected > 0 {
		remark("if it goes on, have the GPU tested with dcgmi diag",
			"%s: %d memory errors since the driver was loaded that ECC could not correct", f.UUID, *s.ECCUncorrected)
	}
}

func checkFiles(root string, m *machine, problem, remark report) {
	missing := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, "/dev", name))
		return err != nil
	}
	if m.listed == 0 {
		return
	}
	if missing("nvidiactl") {
		problem("run nvidia-modprobe, or nvidia-smi as root", "/dev/nvidiactl is missing")
	}
	if missing("nvidia-uvm") {
		problem("run nvidia-modprobe -u -c 0 at boot: CUDA needs it", "/dev/nvidia-uvm is missing")
	}
	d := Device{opts: Options{Root: root}}
	if !d.hasCDI() {
		remark("only for runtimes that use CDI: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
			"there is no CDI specification of the GPUs")
	}
}
