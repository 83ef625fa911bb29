// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestHostReadsSysfs(t *testing.T) {
	root := t.TempDir()
	devices := filepath.Join(root, "sys/bus/pci/devices")
	must.NoError(t, os.MkdirAll(devices, 0o755))
	// Two GPUs on one switch, one right on the root.
	for bus, path := range map[string]string{
		"0000:07:00.0": "pci0000:00/0000:00:01.0/0000:04:00.0/0000:05:08.0/0000:07:00.0",
		"0000:0a:00.0": "pci0000:00/0000:00:01.0/0000:04:00.0/0000:05:10.0/0000:0a:00.0",
		"0000:81:00.0": "pci0000:80/0000:81:00.0",
	} {
		dir := filepath.Join(root, "sys/devices", path)
		write(t, filepath.Join(dir, "numa_node"), "1\n")
		must.NoError(t, os.Symlink(dir, filepath.Join(devices, bus)))
	}
	h := host{root: root}
	must.Eq(t, 1, h.numa("0000:07:00.0"))
	must.Eq(t, -1, h.numa("0000:ff:00.0"))

	bridge, top := h.pcie("0000:07:00.0")
	other, _ := h.pcie("0000:0a:00.0")
	must.Eq(t, "pci0000:00", top)
	must.Eq(t, "0000:04:00.0", bridge)
	must.Eq(t, bridge, other)

	bridge, top = h.pcie("0000:81:00.0")
	must.Eq(t, "pci0000:80", top)
	must.Eq(t, "", bridge)

	bridge, top = h.pcie("0000:ff:00.0")
	must.Eq(t, "", bridge+top)
}

func TestBusID(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:0F:00.0": "0000:0f:00.0",
		"00000008:01:00.0": "0008:01:00.0",
		"00010000:01:00.0": "00010000:01:00.0",
		"0000:81:00.0":     "0000:81:00.0",
		"":                 "",
	} {
		must.Eq(t, want, busID(in))
	}
	raw := [32]int8{'0', 'A', 0, 'x'}
	must.Eq(t, "0A", text(raw[:]))
}

func TestDecimal(t *testing.T) {
	must.Eq(t, 12.4, decimal(12, 4))
	must.Eq(t, 9.0, decimal(9, 0))
	must.Eq(t, 12.1, decimal(12, 1))
}
