// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package leader leads the ring of a job, on one of its agents.
//
//	hosts ── sessions ──> Leader ── events ──> elastic.Machine
//	      <── messages ──   │    <── actions ──
//	                        ├── Exchange: values that processes exchange to connect
//	                        ├── ringStats: gaps, lost steps, step times
//	                        └── Status, sent to every host
//
// Leader feeds sessions into the membership state machine and performs the actions
// that it returns. It holds nothing that can't be rebuilt from what the hosts
// report, so another leader may take over at any time.
//
// It depends neither on Nomad nor on the training framework. Consent to a ring, the record
// of a completed training and the framework's Exchange are interfaces, which the agent
// implements.
package leader
