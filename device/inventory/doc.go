// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package inventory describes the GPUs of this machine: what NVML reports of each,
// how they are linked, which groups they form, and the IDs of NVLink islands and
// PCIe switches. These IDs do not change while the machine is up, and they are the
// only state that the package keeps between two readings. It knows nothing of
// Nomad.
//
//	nvml.Library ──Read──> Inventory ──NewLayout──> Layout ──> groups, islands
//	               (GPUs, pairs)         ^             (pure data)
//	                                     │
//	         /run/nomad-device-nvtopo/stable-ids.json (StableIDs)
//
// # Vocabulary
//
// A unit is a device that a task can get: a whole GPU, or a MIG instance of one.
// An island is a set of units joined by NVLinks, see package topology. A group is
// a set of units of one product that Nomad is offered together; [GroupBy] selects
// how the units of a product are split into groups.
package inventory
