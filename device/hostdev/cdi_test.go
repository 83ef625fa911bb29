// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostdev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

func TestCDINames(t *testing.T) {
	root := t.TempDir()
	must.SliceEmpty(t, ReadCDI(root))
	for path, text := range map[string]string{
		"etc/cdi/other.yaml":      "kind: vendor.example/nic\ndevices:\n- name: GPU-other\n",
		"etc/cdi/nvidia.yaml":     "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n- name: GPU-a\n- name: 'GPU-b'\n- name: GPU-abc\n",
		"var/run/cdi/nvidia.json": `{"kind": "nvidia.com/gpu", "devices": [{"name": "MIG-c", "containerEdits": {}}]}`,
	} {
		must.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		if text != "" {
			must.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
		}
	}
	spec := ReadCDI(root)
	must.Len(t, 2, spec)
	for id, want := range map[string]bool{
		"GPU-a": true, "GPU-b": true, "GPU-abc": true, "MIG-c": true,
		"GPU-other": false, "GPU-ab": false, "GPU-": false, "GPU-.*": false,
	} {
		must.Eq(t, want, spec.Names(id), must.Sprint(id))
	}
}
