// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package devnode

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// controlNodes are the nodes that every CUDA program opens in addition to those of
// its GPUs.
var controlNodes = []string{
	"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-uvm-tools", "dev/nvidia-modeset",
}

var gpuNode = regexp.MustCompile(`^nvidia[0-9]+$`)

// nodesOf returns the device nodes that GPUs (UUIDs) need in addition to the ones
// that the device plugin named (given). It also returns the GPUs whose node is
// neither in the kernel driver's files in /proc nor among the plugin's. The
// plugin's nodes have no UUIDs, so nodesOf counts: there must be at least one for
// each GPU that /proc does not list. MIG instances share the node of the GPU that
// they are parts of. root is the client's file system.
func nodesOf(root fs.FS, gpus []string, given []*drivers.DeviceConfig) (paths, unknown []string) {
	if len(gpus) == 0 {
		return nil, nil
	}
	named := map[string]bool{}
	for _, d := range given {
		if gpuNode.MatchString(path.Base(d.HostPath)) {
			named[d.HostPath] = true
		}
	}
	parents := 0
	minors := minorNumbers(root)
	for _, gpu := range gpus {
		if minor, known := minors[gpu]; known {
			paths = append(paths, "/dev/nvidia"+minor)
			delete(named, "/dev/nvidia"+minor)
			continue
		}
		if strings.HasPrefix(gpu, "MIG-") {
			parents = 1
		}
		unknown = append(unknown, gpu)
	}
	whole := slices.DeleteFunc(slices.Clone(unknown), func(gpu string) bool { return strings.HasPrefix(gpu, "MIG-") })
	if len(whole)+parents > len(named) {
		return nil, unknown
	}
	for _, node := range controlNodes {
		if _, err := fs.Stat(root, node); err == nil {
			paths = append(paths, "/"+node)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// minorNumbers returns the minor number of each GPU, as the kernel driver lists
// them.
func minorNumbers(root fs.FS) map[string]string {
	minors := map[string]string{}
	const dir = "proc/driver/nvidia/gpus"
	entries, _ := fs.ReadDir(root, dir)
	for _, e := range entries {
		info, err := fs.ReadFile(root, path.Join(dir, e.Name(), "information"))
		if err != nil {
			continue
		}
		fields := map[string]string{}
		for s := bufio.NewScanner(bytes.NewReader(info)); s.Scan(); {
			if key, value, ok := strings.Cut(s.Text(), ":"); ok {
				fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
		}
		if uuid, minor := fields["GPU UUID"], fields["Device Minor"]; uuid != "" && minor != "" {
			minors[uuid] = minor
		}
	}
	return minors
}

// merge adds nodes to the given ones, each once.
func merge(given []*drivers.DeviceConfig, nodes []string) []*drivers.DeviceConfig {
	for _, node := range nodes {
		if !slices.ContainsFunc(given, func(d *drivers.DeviceConfig) bool { return d.TaskPath == node }) {
			given = append(given, &drivers.DeviceConfig{TaskPath: node, HostPath: node, Permissions: "rwm"})
		}
	}
	return given
}
