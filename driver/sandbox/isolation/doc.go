// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package isolation builds the file system of an isolated task.
//
// Nomad's exec driver copies the client's directories into every allocation, which
// means gigabytes if a deep-learning framework is installed. This package binds
// them read-only instead. The task's own directories appear both below / and at the
// path they have on the client, so that ${NOMAD_TASK_DIR} means the same file in
// either isolation. The driver's own binary is bound as well, at /.kolo, because
// the agent is that binary.
//
//	Layout ── Check… ─> what the job may not mount
//	   ├── View ──────> where a path of the task lies on the client
//	   └── Rootfs ────> mounts, and a root directory with links
//	        ▲
//	        └── NameService: hosts and resolv.conf in place of the client's
//
// The package starts nothing: Nomad's executor mounts what Rootfs lists.
package isolation
