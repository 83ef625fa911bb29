// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package device

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// A driver from before 2023 lacks functions that the plugin would like to call.
// Calling one would end the process, so the plugin must look it up first.
func TestOldDriver(t *testing.T) {
	plugin, err := binary()
	must.NoError(t, err)
	hw := nvmltest.New(t, "hgx-h100", "-DOLD_DRIVER")
	cmd := exec.Command(plugin, "topo")
	cmd.Env = slices.Concat(os.Environ(), hw.Env(), []string{"KOLO_HOST_ROOT=" + t.TempDir()}) // no sysfs
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	must.StrContains(t, string(out), "GPU7  NV18  NV18")
	must.StrContains(t, string(out), "N/A") // the NUMA nodes
}
