// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// reserved is a task with what a device plugin gave for it.
func reserved(t *testing.T, gpus string, nodes ...string) (*drivers.TaskConfig, privateDirs) {
	t.Helper()
	c := &drivers.TaskConfig{Name: "train", AllocDir: filepath.Join(t.TempDir(), "alloc-id"), DeviceEnv: map[string]string{nvidiaVisible: gpus}}
	for _, node := range nodes {
		c.Devices = append(c.Devices, &drivers.DeviceConfig{TaskPath: node, HostPath: node, Permissions: "rw"})
	}
	dirs := privateDirsOf(c)
	must.NoError(t, dirs.create())
	return c, dirs
}

func nodesOf(devices []*drivers.DeviceConfig) []string {
	var nodes []string
	for _, d := range devices {
		nodes = append(nodes, d.HostPath)
	}
	return nodes
}

// TestDevicesOfALaterStart is about a restart of a task after one of the client:
// Nomad gives the reservation again, but not the nodes that go with it.
func TestDevicesOfALaterStart(t *testing.T) {
	c, dirs := reserved(t, "MIG-x", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1")
	want := []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-uvm", "/dev/nvidiactl"}
	for range 2 {
		devices, err := taskDevices(gpuHost(), c, reservedGPUs(c.DeviceEnv), dirs)
		must.NoError(t, err)
		must.Eq(t, want, nodesOf(devices))
		c.Devices = nil
	}
	// Another reservation has other nodes.
	c.DeviceEnv = map[string]string{nvidiaVisible: "MIG-y"}
	_, err := taskDevices(gpuHost(), c, reservedGPUs(c.DeviceEnv), dirs)
	must.ErrorContains(t, err, "MIG-y")
	c.DeviceEnv = nil
	devices, err := taskDevices(gpuHost(), c, nil, dirs)
	must.NoError(t, err)
	must.SliceEmpty(t, devices)
}

func TestDevicesOfUnknownGPUs(t *testing.T) {
	c, dirs := reserved(t, "GPU-a,GPU-nonsense")
	_, err := taskDevices(gpuHost(), c, reservedGPUs(c.DeviceEnv), dirs)
	must.ErrorContains(t, err, "cannot tell which device nodes belong to GPU-nonsense")
}

func TestDevicesOfTheReservation(t *testing.T) {
	c, dirs := reserved(t, "GPU-c")
	c.Env = map[string]string{"KOLO_GPUS_x": "GPU-a"} // the job's own
	devices, err := taskDevices(gpuHost(), c, reservedGPUs(c.DeviceEnv), dirs)
	must.NoError(t, err)
	must.Eq(t, []string{"/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidiactl"}, nodesOf(devices))
}
