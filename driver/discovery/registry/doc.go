// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package registry reads the list of a job's agents from Nomad's service registry.
//
//	Nomad ── blocking queries, the task's identity ──> Nomad ── Share ──> Shared ──> View
package registry

import "context"

// Registry lists the peers of a job. Its reads must be linearizable: a read that is sent
// after a change was recorded shows that change.
type Registry interface {
	// Watch sends a view whenever the registry changed, was confirmed or failed to answer.
	// A newer view replaces one that was not received. When ctx ends, Watch ends and closes
	// the channel.
	Watch(ctx context.Context) <-chan View
	// Read reads the registry now.
	Read(ctx context.Context) View
}
