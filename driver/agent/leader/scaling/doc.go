// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package scaling reads from Nomad how many allocations of a job should train. The others are
// spare hosts.
//
//	autoscaler ── count 9, spare 1 ──> scaling event of the job ── Watch ──> leader: 8 train
//
// The autoscaler writes both numbers in one request, so they always belong together. If the
// count was changed in any other way since then, nothing is known, and all allocations train.
//
// Package scaling also reads whether the job must not adapt its batch. The autoscaler states
// that in an event of its own, which changes no count.
package scaling
