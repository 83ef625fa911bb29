// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// host reads what the kernel reports about PCI devices and loaded files.
type host struct {
	// root is prepended to /sys and /proc; empty on most machines.
	root string
}

func (h host) device(bus string) string {
	return filepath.Join(h.root, "/sys/bus/pci/devices", bus)
}

// numa returns the NUMA node of a PCI device, or -1 if the kernel reports none.
func (h host) numa(bus string) int {
	b, err := os.ReadFile(filepath.Join(h.device(bus), "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// pcie returns the bridge above a device and the PCIe root. It reads them from the
// kernel's path of the device, such as
// /sys/devices/pci0000:00/0000:00:01.0/0000:06:00.0/0000:07:00.0. A device directly
// on the root has no bridge.
func (h host) pcie(bus string) (bridge, root string) {
	path, err := filepath.EvalSymlinks(h.device(bus))
	if err != nil {
		return "", ""
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "pci") && strings.Contains(p, ":") {
			root = p
			// Directly above a GPU is a downstream port of its own; GPUs share the
			// bridge above that, the switch's upstream port.
			if up := len(parts) - 3; up > i {
				bridge = parts[up]
			}
			return bridge, root
		}
	}
	return "", ""
}

// Replaced reports whether the libnvidia-ml.so.1 that this process has loaded
// differs from the file on disk, for example after an upgrade of the driver. The
// loader keeps a loaded library, so only a new process gets the new library.
func (r *Real) Replaced() bool {
	loaded := r.host.loaded("libnvidia-ml.so")
	if loaded.path == "" {
		return false
	}
	// The name that was opened is a link to the file with the version, usually in
	// the same folder.
	now, err := os.Stat(filepath.Join(filepath.Dir(loaded.path), "libnvidia-ml.so.1"))
	if err != nil {
		return false
	}
	sys, ok := now.Sys().(*syscall.Stat_t)
	return ok && sys.Ino != loaded.inode
}

type mapped struct {
	path  string
	inode uint64
}

// loaded finds a file among those mapped into this process.
func (host) loaded(name string) mapped {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return mapped{}
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// 7f..-7f.. r-xp 00000000 08:01 123456 /usr/lib/…/libnvidia-ml.so.550.54.15
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasPrefix(filepath.Base(fields[5]), name) {
			continue
		}
		inode, err := strconv.ParseUint(fields[4], 10, 64)
		if err != nil {
			continue
		}
		return mapped{path: fields[5], inode: inode}
	}
	return mapped{}
}
