// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package inventory describes the GPUs of this machine: what NVML reports of
// each, how they are linked, which groups they form, and the ids of NVLink
// islands and PCIe switches, which stay the same while the machine is up. It
// knows nothing of Nomad, and keeps no state between two readings other than
// these ids.
//
//	nvml.Library ──Read──> Inventory ──NewLayout──> Layout ──> groups, islands
//	               (GPUs, pairs)         ^             (pure data)
//	                                     │
//	         /run/nomad-device-nvtopo/stable-ids.json (StableIDs)
//
// # Words
//
// A unit is what can be given to a task: a whole GPU, or a MIG instance of one.
// An island is a set of units that NVLinks join, see package topology. A group
// is a set of units of one product that are offered together; [GroupBy] chooses
// by which locality a product is split.
package inventory
