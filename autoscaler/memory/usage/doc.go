// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package usage keeps the account of the slots that jobs hold, and of what they use them
// for. It is pure: no I/O, no clock of its own.
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
//   - spare: of slots outside the ring, by the autoscaler's intent, ready to replace lost ones.
//   - unknown: the job did not report its steps.
//   - idle: everything else.
//
// The productive share is productive time divided by all held time that is not unknown.
//
// A job's own report only divides the time that the job held into categories. It cannot
// change how much time that is, and does not affect other jobs.
//
// # Counted once
//
// Every allocation has a record of the time up to which it was counted. The record is saved
// in the same variable as the counts of its job. So after a crash at any moment, each job
// continues from its own last save, and the times that Nomad reports fill the gap. Days are
// archived in order. An archived day does not change.
package usage
