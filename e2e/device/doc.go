// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package device contains the tests that run nomad-device-nvtopo in a real Nomad
// cluster, on machines that the NVML stub (package nvmltest) simulates. They have
// the build tag e2e; `make e2e-device` runs them.
//
// Each client of the cluster runs in a folder of its own, and the stub reads the
// machine of the folder that it runs in. So one cluster has different GPU machines.
package device
