// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package eventtail follows the file in which an agent reports events, and passes
// them on in a form that is safe to display.
//
//	agent ── appends ──> events.jsonl ── Tail ──> parse, clean, bound ──> Emit
//	                     (the task's)     │
//	                                      └── how far it has come (root's)
//
// The file belongs to the task, so anything in it may be forged. The package knows
// nothing of Nomad.
package eventtail
