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
// Leader passes the sessions' messages to the membership state machine and performs the
// actions that it returns. Everything that it holds can be rebuilt from the hosts' reports,
// so another leader may take over at any time.
//
// It depends neither on Nomad nor on the training framework. Consent to a ring, the record
// of a completed training and the framework's Exchange are interfaces, which the agent
// implements.
package leader
