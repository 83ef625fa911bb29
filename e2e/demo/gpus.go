// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// The size of the cluster: enough for jobs to share, and few enough training
// processes for two cores.
const (
	clients   = 3
	perClient = 2
	slots     = clients * perClient
	slotMHz   = 1000
)

const devicePlugin = "bin/nomad-device-nvtopo"

// standInGPUs returns the environment that makes every client see the GPUs of
// two-l4.machine, or the reason why that does not work.
func standInGPUs(root string) (ok bool, env map[string]string, why string) {
	if _, err := os.Stat(filepath.Join(root, devicePlugin)); err != nil {
		return false, nil, err.Error()
	}
	library, err := nvmltest.Build()
	if err != nil {
		return false, nil, err.Error()
	}
	return true, map[string]string{
		"KOLO_NVML_LIBRARY": library,
		"NVMLTEST_MACHINE":  filepath.Join(root, "e2e/demo/two-l4.machine"),
	}, ""
}
