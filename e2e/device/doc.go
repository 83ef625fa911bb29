// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package device contains the tests that run nomad-device-nvtopo in a real Nomad
// cluster, on machines that the NVML stub (package nvmltest) simulates. They have
// the build tag e2e; `make e2e-device` runs them.
//
// Each client of the cluster runs in its own folder, and the stub simulates the
// machine that is described in that folder. So one cluster can have different GPU
// machines.
package device
