// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package security attacks Kolo on a real Nomad with access control, as a tenant of
// the cluster would.
//
//	   namespace team-a                namespace team-b
//	┌──────────────────────┐       ┌──────────────────────┐
//	│ elastic training     │       │ attacks/*.py, run by │
//	│                      │   ✗   │ the same driver      │
//	└──────────┬───────────┘       └──────────┬───────────┘
//	           └── one client, one loopback ──┘
//	               host files, device nodes, kolo's API
//
// Both tenants have a token that lets them submit jobs to their own namespace and
// nothing else. An attack is a Python script that prints what it achieved as one
// line of JSON. A test fails if that is more than the attacker may do. Each attack
// worked before there was a defence against it.
//
// The tests need root, because the driver isolates tasks only as root.
package security
