// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package device holds the tests that run nomad-device-nvtopo in a real Nomad
// cluster, on machines that the NVML stub (package nvmltest) pretends to
// be. They are behind the build tag e2e; `make e2e-device` runs them.
//
// Each client of the cluster runs in a folder of its own, and the stub is
// told to read the machine of the folder it runs in: so one cluster has
// different GPU machines.
package device
