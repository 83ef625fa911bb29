// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package devnode

import (
	"testing"
	"testing/fstest"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// gpuHost returns the file system of a host with three GPUs whose minor numbers do
// not follow the order of their bus ids, one of them cut into MIG instances.
func gpuHost() fstest.MapFS {
	info := func(uuid, minor string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Model: \t\t NVIDIA H200\nIRQ:   \t\t 101\nGPU UUID: \t " + uuid +
			"\nVideo BIOS: \t 96.00\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No\n")}
	}
	return fstest.MapFS{
		"proc/driver/nvidia/gpus/0000:18:00.0/information": info("GPU-a", "2"),
		"proc/driver/nvidia/gpus/0000:2a:00.0/information": info("GPU-b", "0"),
		"proc/driver/nvidia/gpus/0000:3b:00.0/information": info("GPU-c", "1"),
		"dev/nvidia0": {}, "dev/nvidia1": {}, "dev/nvidia2": {},
		"dev/nvidiactl": {}, "dev/nvidia-uvm": {}, "dev/nvidia-caps/nvidia-cap1": {}, "dev/null": {},
	}
}

func TestNodes(t *testing.T) {
	cases := map[string]struct {
		gpus, nodes, unknown []string
		given                []string
	}{
		"none": {},
		"by their minor numbers": {
			[]string{"GPU-a", "GPU-c"}, []string{"/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidiactl"}, nil, nil,
		},
		"MIG instance whose nodes the device plugin has named": {
			[]string{"MIG-x"}, []string{"/dev/nvidia-uvm", "/dev/nvidiactl"}, nil,
			[]string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1"},
		},
		"MIG instance": {[]string{"GPU-b", "MIG-x"}, nil, []string{"MIG-x"}, []string{"/dev/nvidiactl"}},
		"GPU of no host, and one whose nodes are named": {[]string{"MIG-x", "GPU-y"}, nil, []string{"MIG-x", "GPU-y"}, []string{"/dev/nvidia0"}},
		"GPUs whose nodes the device plugin has named": {
			[]string{"GPU-y", "GPU-z"}, []string{"/dev/nvidia-uvm", "/dev/nvidiactl"}, nil, []string{"/dev/nvidia4", "/dev/nvidia5"},
		},
		"one of two device blocks whose plugin names no nodes": {[]string{"GPU-y", "GPU-z"}, nil, []string{"GPU-y", "GPU-z"}, []string{"/dev/nvidia4"}},
		"a node that is another's":                             {[]string{"GPU-a", "GPU-y"}, nil, []string{"GPU-y"}, []string{"/dev/nvidia2"}},
		"GPU of no host":                                       {[]string{"GPU-b", "GPU-y"}, nil, []string{"GPU-y"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var given []*drivers.DeviceConfig
			for _, path := range c.given {
				given = append(given, &drivers.DeviceConfig{HostPath: path})
			}
			nodes, unknown := nodesOf(gpuHost(), c.gpus, given)
			must.Eq(t, c.nodes, nodes)
			must.Eq(t, c.unknown, unknown)
		})
	}
}

func TestMerge(t *testing.T) {
	given := []*drivers.DeviceConfig{{TaskPath: "/dev/nvidia0", HostPath: "/dev/nvidia0", Permissions: "r"}}
	got := merge(given, []string{"/dev/nvidia0", "/dev/nvidiactl"})
	must.Eq(t, []*drivers.DeviceConfig{
		{TaskPath: "/dev/nvidia0", HostPath: "/dev/nvidia0", Permissions: "r"},
		{TaskPath: "/dev/nvidiactl", HostPath: "/dev/nvidiactl", Permissions: "rwm"},
	}, got)
}
