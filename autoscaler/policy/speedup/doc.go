// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package speedup models how the time of a training step depends on the number
// of workers: a Curve for one job, as far as it was measured and filled in where
// it was not, and a Shape for jobs of one kind, which scale alike.
//
//	measured step times ──> Curve ──Learn──> Shape (of the kind)
//	                          ^                │
//	                          └────Extend──────┘  sizes that the job has not run at
//
// Jobs report their own times: what policies see of such a curve, and what others
// of the kind learn from it, is Sublinear.
//
// It is pure, and knows neither jobs nor policies.
package speedup
