// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package inspect reads a machine once, for an operator's commands: [Check] finds
// problems of its set-up, and [Topology] reports the link matrix, the islands and
// the groups. It knows nothing of Nomad, and does not need a running plugin.
//
//	nvml.Library ──inventory.Read──┬── Check ──> []Finding  (check)
//	                               └── Topology ──> Report  (topo, topo -json)
package inspect
