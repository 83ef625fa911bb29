// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package privatedirs keeps what root writes for a task where the task cannot touch
// it.
//
// A task's directory, and the one it shares with the other tasks of its allocation,
// belong to the users that tasks run as: anything in them can be replaced by a link
// before root opens it the next time. So what root writes for a task lies in
// directories of root's own, next to those of the allocations.
//
//	<alloc_dir>/<allocation>/<task>/              Nomad's, and the task's
//	<alloc_dir>/.kolo/state/<allocation>/<task>/  what the driver writes
//	<alloc_dir>/.kolo/root/<allocation>/<task>/   root of an isolated task
//	/dev/shm/kolo-<random>/<allocation>/<task>/   its shared memory
//
// The first two can't lie in the allocation's directory: a job may name a task like
// any entry there.
package privatedirs
