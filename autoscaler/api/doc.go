// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package api defines the requests and answers of the autoscaler's HTTP API, and a client
// for it.
//
//	controller ─ Status, Proposal, Event ─> server ── HTTP ──> Client ─> kolo, record, demo
//
// The types contain no logic. docs/reference/api.md describes each request.
package api
