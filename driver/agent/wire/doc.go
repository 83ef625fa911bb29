// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package wire defines the messages that hosts and leader exchange in a session, and
// the status of the job that the leader derives from them.
//
//	Host ── ToLeader: Register, Leaving, Arrived, Waiting, Up, … ──> Leader
//	     <── ToAgent: Start, Stop, Form, Notify, Break, Status, … ──
//
// A session is a gRPC stream (package session), or a Pipe if host and leader are in one
// process. Messages on the stream are JSON. So a version may add fields, and agents of
// different versions understand each other while a job is updated.
package wire
