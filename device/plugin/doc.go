// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin is the Nomad device plugin. It translates between Nomad and the
// packages that know nothing of it: what the monitor publishes becomes device
// groups, attributes and statistics, a reservation becomes environment and
// device nodes, and the configuration block becomes a checked config.
//
//	Nomad (gRPC)   SetConfig    Fingerprint          Stats       Reserve
//	                   │             ^                 ^            │
//	               config.go   groups.go           stats.go    reserve.go
//	                   │       attributes.go           │            │
//	                   v             │                 │            v
//	              monitor.Config     └── monitor.View ─┴──> hostdev, StableIDs
//	                                     monitor.Reading
//
// Nomad drops a device plugin until its agent restarts when the fingerprint
// stream carries an error or closes. So it never does: whatever happens to NVML
// or a GPU is reported as the health of devices. And because Nomad caches by the
// attributes of a node whether a job fits there, a change of health changes an
// attribute too (healthy).
package plugin
