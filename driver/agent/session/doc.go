// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package session connects hosts to the leader on another machine: one gRPC
// stream of the messages of package wire, within TLS that proves both sides.
//
//	host ── HostEnd ══ gRPC, TLS ══ LeaderEnd ── leader
//	          ↑ Follower: opens it, renews it before a certificate expires,
//	          │           opens another when it breaks
//
// A session ends when a certificate of its connection expires, and when nothing
// is heard for wire.HeartbeatTimeout. An agent registers as its own allocation
// only.
package session
