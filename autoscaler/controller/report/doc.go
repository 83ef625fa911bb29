// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package report turns the result of a round of the control loop into the output for users:
// the status, the topology of each pool, and the metrics. Its functions are pure.
package report
