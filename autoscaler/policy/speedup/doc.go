// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package speedup models how the time of a training step depends on the number of
// workers. A Curve describes one job: its measurements, and estimates for the other
// sizes. A Shape describes how all jobs of one kind scale.
//
//	measured step times ──> Curve ──Learn──> Shape (of the kind)
//	                          ^                │
//	                          └────Extend──────┘  sizes that the job has not run at
//
// Jobs report their own times. Therefore policies see only the Sublinear form of
// such a curve, and other jobs of the kind learn from that form only.
//
// It is pure, and knows neither jobs nor policies.
package speedup
