// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package events reports to the user what happens in an allocation:
//
//	Emit ──> the agent's log
//	    └──> event file, JSON lines ── plugin ──> task events of Nomad
package events
