// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin is the Nomad device plugin. It connects Nomad to packages that
// know nothing of Nomad. It turns the monitor's views into device groups,
// attributes and statistics, a reservation into environment and device nodes, and
// the configuration block into a checked config.
//
//	Nomad (gRPC)   SetConfig    Fingerprint          Stats       Reserve
//	                   │             ^                 ^            │
//	               config.go   groups.go           stats.go    reserve.go
//	                   │       attributes.go           │            │
//	                   v             │                 │            v
//	              monitor.Config     └── monitor.View ─┴──> hostdev, StableIDs
//	                                     monitor.Reading
//
// If the fingerprint stream carries an error or closes, Nomad drops the device
// plugin until the agent restarts. So that never happens: any problem of NVML or a
// GPU is reported as the health of devices. Nomad caches whether a job fits on a
// node, for each combination of node attributes. So a change of health also changes
// an attribute (healthy).
package plugin
