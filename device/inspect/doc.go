// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package inspect reads a machine once, for the commands that an operator runs:
// [Check] finds what is wrong with its set-up, and [Topology] reports the link
// matrix, the islands and the groups. It knows nothing of Nomad, and does not
// need a running plugin.
//
//	nvml.Library ──inventory.Read──┬── Check ──> []Finding  (check)
//	                               └── Topology ──> Report  (topo, topo -json)
package inspect
