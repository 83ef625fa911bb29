// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvmltest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeSysfs creates the kernel's files about the PCI devices of a machine:
// sys/bus/pci/devices, with a link for each GPU to its node in the tree. The node
// is directly on its root, or behind a switch with an upstream and a downstream
// port.
func writeSysfs(root string, gpus []GPU) error {
	links := filepath.Join(root, "sys/bus/pci/devices")
	if err := os.MkdirAll(links, 0o755); err != nil {
		return fmt.Errorf("making sysfs: %w", err)
	}
	var switches []string
	for i, g := range gpus {
		// The kernel writes 0000:0f:00.0 for NVML's 00000000:0F:00.0.
		bus := strings.ToLower(g.Get("bus"))[4:]
		dir := filepath.Join("sys/devices", g.Get("root"))
		if name := g.Get("root") + "/" + g.Get("switch"); g.Get("switch") != "" {
			if !slices.Contains(switches, name) {
				switches = append(switches, name)
			}
			up := slices.Index(switches, name)
			dir = filepath.Join(dir, fmt.Sprintf("0000:e%x:01.0", up),
				fmt.Sprintf("0000:f%x:00.0", up), fmt.Sprintf("0000:f%x:%02x.0", up, i+1))
		}
		dir = filepath.Join(dir, bus)
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("making sysfs: %w", err)
		}
		numa := filepath.Join(root, dir, "numa_node")
		if err := os.WriteFile(numa, []byte(g.Get("numa")+"\n"), 0o600); err != nil {
			return fmt.Errorf("making sysfs: %w", err)
		}
		if err := os.Symlink(filepath.Join("../../../..", dir), filepath.Join(links, bus)); err != nil {
			return fmt.Errorf("making sysfs: %w", err)
		}
	}
	return nil
}
