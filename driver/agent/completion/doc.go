// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package completion records in Nomad that a training is complete, so that
// allocations that Nomad places later do not train again from the beginning.
//
//	leader ── Save ──> variable nomad/jobs/<job> ── Find ──> agent that starts
//
// The record identifies what was trained by digests of the job's groups. A job that was
// changed since then trains again.
package completion
