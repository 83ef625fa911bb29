// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package usage accounts for the slots that jobs hold: how long, by whom, and for what.
// It is pure: no I/O, no clock of its own.
//
//	Job, Alloc (Nomad) ── Account ──> Ledger ── Rows ──> Group (API, metrics)
//	Report (training) ─── Report ───────┘  └─ Close ──> Day (archived)
//
// # Definition
//
// A slot is held from the creation of its allocation until the allocation ends, as Nomad
// reports both. Every slot-second that is held is in exactly one category:
//
//   - productive: in steps that were committed.
//   - starting: before the first step of a job, and in the first ten minutes of an
//     allocation whose slots are not in the ring yet.
//   - resizing: between the last step of a ring and the first step of the next.
//   - lost: the same after a failure, and steps that were done again.
//   - unknown: the job did not report its steps.
//   - idle: everything else.
//
// The productive share is productive time as a part of the time that is held and not unknown.
//
// A job's own report divides the time that the job held. It cannot change how much that is,
// nor anything about another job.
//
// # Counted once
//
// Every allocation has a record of the time up to which it was counted. The record is saved
// with the counts of its job, in one variable. So after any crash each job continues from
// its own last save, and Nomad's times fill the gap. Days are archived in order. An archived
// day no longer changes.
package usage
