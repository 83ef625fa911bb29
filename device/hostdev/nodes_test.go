// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostdev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// A MIG instance needs the nodes of its GPU and of its two capabilities.
func TestNodesOfMIG(t *testing.T) {
	root := t.TempDir()
	gi := filepath.Join(root, "proc/driver/nvidia/capabilities/gpu1/mig/gi9")
	for path, number := range map[string]string{"access": "21", "ci0/access": "22"} {
		must.NoError(t, os.MkdirAll(filepath.Join(gi, filepath.Dir(path)), 0o755))
		must.NoError(t, os.WriteFile(filepath.Join(gi, path), []byte("DeviceFileMinor: "+number+"\nDeviceFileMode: 292\n"), 0o600))
	}
	dev := filepath.Join(root, "dev")
	must.NoError(t, os.MkdirAll(filepath.Join(dev, "nvidia-caps"), 0o755))
	for _, name := range []string{"nvidia0", "nvidia1", "nvidiactl", "nvidia-caps/nvidia-cap21", "nvidia-caps/nvidia-cap22", "nvidia-caps/nvidia-cap23"} {
		must.NoError(t, os.Symlink("/dev/null", filepath.Join(dev, name)))
	}
	minor := 1
	u := inventory.Unit{
		GPU:      &nvml.Facts{UUID: "GPU-1", Minor: &minor, MIG: true},
		Instance: &nvml.Instance{UUID: "MIG-1", GI: 9, CI: 0},
	}
	paths, err := Nodes(root, []inventory.Unit{u})
	must.NoError(t, err)
	must.Eq(t, []string{"/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22", "/dev/nvidia1", "/dev/nvidiactl"}, paths)

	u.Instance = &nvml.Instance{UUID: "MIG-x", GI: 8, CI: 0}
	paths, err = Nodes(root, []inventory.Unit{u})
	must.ErrorContains(t, err, "MIG-x")
	must.Eq(t, []string{"/dev/nvidia1", "/dev/nvidiactl"}, paths)
}
