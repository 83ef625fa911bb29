// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package leader elects one autoscaler among several by the lock of a Nomad
// variable, and makes sure that the one that lost the lock stops.
//
//	        acquire ok                    renew ok, every TTL/3
//	waiting ──────────> leading ─────────────────────┐
//	   ^                   │  ^──────────────────────┘
//	   │                   │ conflict, or no renewal within TTL
//	   └── work has ended ─┘ (Nomad itself waits 2×TTL and the lock delay)
//
// Nomad gives the lock to another at 2×TTL plus the lock delay after the last
// renewal. This side gives up at TTL: Check fails from that instant on, by
// the clock and not by a message, so that a paused or cut off process cannot
// write after it has been replaced. Elections start again only when the work
// of the last term has returned.
package leader
