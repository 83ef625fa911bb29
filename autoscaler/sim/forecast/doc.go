// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package forecast estimates when waiting jobs start, as a range.
//
//	snapshot, policy ──────┐
//	lengths of jobs ───────┼─> draw lengths and arrivals ─> simulate ─┐
//	recent arrivals ───────┘        ^                                 │
//	                                └──────── some 20 times ──────────┤
//	                                                                  └─> quantiles of the starts
//
// The package simulates the pool several times from its present state, with the pool's own
// policy. For each run, it draws how much longer jobs run, from what is known of their
// lengths (Length), and which jobs arrive, from those that arrived recently. The range of a
// job contains most of its starts in these runs. Forecasts are only shown to users. No
// decision depends on them, so a job that declares a wrong length affects only forecasts.
//
// # Limits
//
// The work of a forecast is limited, in decisions times jobs, and not by time. So a slow
// machine gives the same answer to the same question. A run that reaches the limit shows
// only that jobs start later than its end, so their ranges have only a lower bound.
//
// The memory of a forecast is limited by the number of sizes for which it tabulates step times.
// So in a pool of 2000 jobs, a job is assumed to gain nothing from workers beyond 524.
//
// Runs count slots and do not place workers on nodes. A job that waits because free slots are
// scattered starts later than its forecast.
package forecast
