// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package registry reads from Nomad's service registry who the agents of a job are.
//
//	Nomad ── blocking queries, the task's identity ──> Nomad ── Share ──> Shared ──> View
package registry

import "context"

// Registry knows who the peers of a job are. Its reads must be linearizable: a
// read that is sent after a change was recorded shows it.
type Registry interface {
	// Watch sends a view whenever the registry changed, was confirmed or failed
	// to answer, the latest one only. It ends, and closes the channel, with ctx.
	Watch(ctx context.Context) <-chan View
	// Read asks the registry now.
	Read(ctx context.Context) View
}
