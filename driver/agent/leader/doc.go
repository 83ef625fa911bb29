// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package leader leads the ring of a job, on one of its agents.
//
//	hosts ── sessions ──> Leader ── events ──> elastic.Machine
//	      <── messages ──   │    <── actions ──
//	                        ├── Exchange: what processes exchange to connect
//	                        ├── ringStats: gaps, lost steps, step times
//	                        └── Status, sent to every host
//
// Leader feeds sessions into the membership state machine and performs the actions
// that it returns. It holds nothing that can't be rebuilt from what the hosts
// report, so another leader may take over at any time.
//
// It knows neither Nomad nor the training framework: consent to a ring, the record
// of a completed training and the framework's Exchange are interfaces that the
// agent fills in.
package leader
