// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package devnode

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/gpu"
)

// reserved returns a device plugin's assignment for a task.
func reserved(gpus string, nodes ...string) Reservation {
	r := Reservation{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": gpus}}
	for _, node := range nodes {
		r.Given = append(r.Given, &drivers.DeviceConfig{TaskPath: node, HostPath: node, Permissions: "rw"})
	}
	return r
}

func paths(devices []*drivers.DeviceConfig) []string {
	var paths []string
	for _, d := range devices {
		paths = append(paths, d.HostPath)
	}
	return paths
}

// TestDevicesOfALaterStart restarts a task after a restart of the client: Nomad
// passes the reservation again, but not its nodes.
func TestDevicesOfALaterStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "devices.json")
	r := reserved("MIG-x", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1")
	want := []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-uvm", "/dev/nvidiactl"}
	for range 2 {
		devices, err := r.Devices(gpuHost(), gpu.Reserved(r.Env), file)
		must.NoError(t, err)
		must.Eq(t, want, paths(devices))
		r.Given = nil
	}
	// Another reservation has other nodes.
	r = reserved("MIG-y")
	_, err := r.Devices(gpuHost(), gpu.Reserved(r.Env), file)
	must.ErrorContains(t, err, "MIG-y")
	devices, err := Reservation{}.Devices(gpuHost(), nil, file)
	must.NoError(t, err)
	must.SliceEmpty(t, devices)
}

func TestDevicesOfUnknownGPUs(t *testing.T) {
	r := reserved("GPU-a,GPU-nonsense")
	_, err := r.Devices(gpuHost(), gpu.Reserved(r.Env), filepath.Join(t.TempDir(), "devices.json"))
	must.ErrorContains(t, err, "cannot determine which device nodes belong to GPU-nonsense")
}

func TestDevicesOfTheReservation(t *testing.T) {
	r := reserved("GPU-c")
	devices, err := r.Devices(gpuHost(), gpu.Reserved(r.Env), filepath.Join(t.TempDir(), "devices.json"))
	must.NoError(t, err)
	must.Eq(t, []string{"/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidiactl"}, paths(devices))
}
