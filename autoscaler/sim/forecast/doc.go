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
// It runs the simulator from the present state, with the pool's own policy, again and again.
// Each run draws how long jobs still take, from what is known of them (Length), and which
// jobs arrive, from those that arrived lately. The range spans most of the starts that the
// runs had. Forecasts are for people: no decision depends on one, so a job that lies about
// its length moves forecasts only.
//
// # Limits
//
// The work of a forecast is bounded, in decisions times jobs. So the same question gets the
// same answer on a slow machine. A run that reaches its bound shows only that jobs start
// later than that: their range has no end. Its memory is bounded by the number of sizes that it
// tells apart, so in a pool of 2000 jobs, one of more than 524 workers is expected to gain nothing
// from those beyond.
//
// Runs count slots and do not place workers on nodes. A job that waits because free slots are
// scattered starts later than its forecast.
package forecast
