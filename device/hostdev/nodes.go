// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/device/inventory"
)

// sharedNodes are the nodes that every user of a GPU needs.
var sharedNodes = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

// Nodes returns the paths of the device nodes in /dev that exist for the units, in
// order. Task drivers that isolate tasks without NVIDIA's container runtime, such
// as exec, need them. An error means that the capabilities of some MIG instances
// are unknown; the result then lacks only the nodes of these instances. root is
// prepended to /dev and /proc.
func Nodes(root string, units []inventory.Unit) ([]string, error) {
	names := slices.Clone(sharedNodes)
	var errs []error
	for _, u := range units {
		minor := u.GPU.Minor
		if minor == nil {
			continue
		}
		names = append(names, fmt.Sprintf("nvidia%d", *minor))
		if u.Instance == nil {
			continue
		}
		caps, err := capabilities(root, u)
		if err != nil {
			errs = append(errs, err)
		}
		for _, n := range caps {
			names = append(names, fmt.Sprintf("nvidia-caps/nvidia-cap%d", n))
		}
	}
	slices.Sort(names)
	var paths []string
	for _, name := range slices.Compact(names) {
		path := filepath.Join("/dev", name)
		info, err := os.Stat(filepath.Join(root, path))
		if err == nil && info.Mode()&os.ModeCharDevice != 0 {
			paths = append(paths, path)
		}
	}
	return paths, errors.Join(errs...)
}

// capabilities returns the numbers N of the /dev/nvidia-caps/nvidia-capN that a
// process needs to use a MIG instance.
func capabilities(root string, u inventory.Unit) ([]int, error) {
	in := u.Instance
	gi := filepath.Join(root, "/proc/driver/nvidia/capabilities",
		fmt.Sprintf("gpu%d/mig/gi%d", *u.GPU.Minor, in.GI))
	var caps []int
	for _, path := range []string{
		filepath.Join(gi, "access"),
		filepath.Join(gi, fmt.Sprintf("ci%d", in.CI), "access"),
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("MIG instance %s: %w", in.UUID, err)
		}
		for line := range strings.Lines(string(b)) {
			value, ok := strings.CutPrefix(line, "DeviceFileMinor:")
			if !ok {
				continue
			}
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			caps = append(caps, n)
		}
	}
	return caps, nil
}
