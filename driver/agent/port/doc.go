// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package port shares the one port of an agent between its two protocols, and
// limits the resources of callers that have not authenticated themselves.
//
//	                     ┌─ TLS ────────> Agents: gRPC, for other agents
//	listener ── 1st byte ┤
//	                     └─ other ──────> Web: HTTP/1, for readers of the status
//
// A connection counts towards the limits of its protocol and address until its
// caller is authenticated, or until it ends.
package port
