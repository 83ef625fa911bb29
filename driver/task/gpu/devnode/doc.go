// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package devnode knows which device nodes belong to the GPUs that a task has
// reserved.
//
//	device plugins ──> Reservation ── Devices ──> device nodes
package devnode
