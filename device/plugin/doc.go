// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin is the Nomad device plugin: it tells Nomad which NVIDIA GPUs
// there are, how they are joined and whether they are well, hands them to
// tasks, and measures them.
//
//	     Fingerprint   Stats   Reserve        (Nomad, over gRPC)
//	          │          │        │
//	          │          │        └── view: what was last published
//	          └── monitor┘            ^
//	     one goroutine owns NVML ─────┘
//	     │         │          │
//	 machine     health    readings
//	(facts and  (a state   (samples and
//	 links)      machine    rates)
//	             per GPU)
//
// Nomad ends a device plugin for good, until its agent restarts, when the
// fingerprint stream carries an error or closes. So it never does: whatever
// happens to NVML or a GPU is said as the health of devices. And because Nomad
// caches by the attributes of a node whether a job fits there, a change of
// health is also a change of an attribute (healthy).
//
// # Words
//
// A unit is what Nomad can give to a task: a GPU, or an instance of a GPU that
// is cut by MIG. A group is what Nomad schedules from: all units with one name.
package plugin
