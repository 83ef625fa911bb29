// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package discovery answers three questions an agent has about its job: who
// are my peers, is the one that calls me really one of them, and which of us
// leads.
//
//	Nomad ── registry ──> Registry ──> View ─┐
//	                                         ├─> Elector ──> Leadership, Form
//	peers <── Hello/Promise/Lead/Accept ─────┘       ▲
//	  └── workload identity ──> Verifier ── Gate
//
// Registry reads the instances of the job's Nomad service. Verifier checks
// workload identities against Nomad's keys, and Gate puts what they say into
// each call's context. Elector follows or provides the job's one
// leader, and is the gate that every new ring passes (Form). Its rules live in
// package election, which has no I/O and no clock.
package discovery
