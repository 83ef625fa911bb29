// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package stall decides when a ring has made no step for too long, and which of its
// processes is the cause (stall_timeout = "auto"). It reads no clock and does no I/O: the
// leader reports the durations of steps and what hosts see of their processes.
//
// A Rule learns from the steps of the ring itself how long a step may take. If a ring
// exceeds this time, Judge compares its processes. A process that uses CPU time or waits
// for a disk may be evaluating, compiling or writing a checkpoint. A ring with such a
// process gets more time.
package stall
