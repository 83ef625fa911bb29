// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package api has the requests and answers of the autoscaler's HTTP API, and a
// client for it.
//
//	controller ─ Status, Proposal, Event ─> server ── HTTP ──> Client ─> kolo, record, demo
//
// It holds types and no logic. docs/reference/api.md describes each request.
package api
