// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package devnode finds the device nodes of the GPUs that a task has reserved.
//
//	device plugins ──> Reservation ── Devices ──> device nodes
package devnode
