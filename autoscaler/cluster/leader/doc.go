// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package leader elects one of several autoscalers with the lock of a Nomad
// variable, and makes sure that a leader that lost the lock stops.
//
//	        acquire ok                    renew ok, every TTL/3
//	waiting ──────────> leading ─────────────────────┐
//	   ^                   │  ^──────────────────────┘
//	   │                   │ conflict, or no renewal within TTL
//	   └── work has ended ─┘ (Nomad itself waits 2×TTL and the lock delay)
//
// Nomad gives the lock to another autoscaler no earlier than 2×TTL plus the lock
// delay after the last renewal. The leader itself gives up at TTL: from that
// instant on, Check fails. Check reads the clock and depends on no message, so a
// paused or disconnected process cannot write after it was replaced. An elector
// stands for election again only after the work of its last term has returned.
package leader
