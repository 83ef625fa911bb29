// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package wire has what hosts and leader send each other in a session, and the
// status of the job that the leader makes of it.
//
//	Host ── ToLeader: Register, Leaving, Arrived, Waiting, Up, … ──> Leader
//	     <── ToAgent: Start, Stop, Form, Notify, Break, Status, … ──
//
// A session is a gRPC stream (package session), or a Pipe where host and leader
// are in one process. Messages are JSON on the stream: new fields may be added,
// and agents of neighbouring versions understand each other while a job is
// updated.
package wire
