// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadtest is a stand-in for Nomad's HTTP API, for tests and
// measurements of the autoscaler in one process: thousands of nodes, no
// containers, and faults on demand.
//
// It answers as package contract asserts of a real Nomad, and nothing else: lists by
// pages with blocking queries, an event stream, scaling with its conflicts, a new job
// version for each scale, completed batch workers run again after a scale, version tags
// that a scale copies, variables with locks. Workers are placed first-fit, at once;
// those stopped end after StopDelay.
//
// It is no Nomad: there is one namespace, there are no evaluations but blocked ones and
// what becomes of them, no deployments, no access control beyond who a token is and
// which jobs it may read and scale, no plan.
package nomadtest
