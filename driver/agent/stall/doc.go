// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package stall decides when a ring has made no step for too long, and which of its
// processes is the cause (stall_timeout = "auto"). It reads no clock and does no I/O: the
// leader reports the durations of steps and what hosts see of their processes.
//
// A Rule learns from the steps of the ring itself how long a step may take. Judge compares
// the processes of a ring that exceeds this time. A process that works, or waits for a disk,
// may evaluate, compile or write a checkpoint, so such a ring gets more time.
package stall
