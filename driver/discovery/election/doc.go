// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package election holds the rules by which the agents of one job agree on a
// leader, and by which a leader may form a ring. No I/O, no clock: events in,
// actions out.
package election
