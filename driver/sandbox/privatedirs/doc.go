// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package privatedirs keeps files that root writes for a task where the task cannot
// touch them.
//
// A task's directory, and the directory that it shares with the other tasks of its
// allocation, belong to the users that tasks run as. Anything in them can be
// replaced by a link before root opens it the next time. So root writes a task's
// files to directories of its own, next to the allocations' directories.
//
//	<alloc_dir>/<allocation>/<task>/              Nomad's, and the task's
//	<alloc_dir>/.kolo/state/<allocation>/<task>/  what the driver writes
//	<alloc_dir>/.kolo/root/<allocation>/<task>/   root of an isolated task
//	/dev/shm/kolo-<random>/<allocation>/<task>/   its shared memory
//
// The two directories below .kolo can't lie in the allocation's directory, because
// a job may give a task the name of any entry there.
package privatedirs
