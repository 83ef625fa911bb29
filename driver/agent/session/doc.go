// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package session connects hosts to the leader on another machine: one gRPC
// stream with the messages of package wire, within mutual TLS.
//
//	host ── HostEnd ══ gRPC, TLS ══ LeaderEnd ── leader
//	          ↑ Follower: opens it, renews it before a certificate expires,
//	          │           opens another when it breaks
//
// A session ends when a certificate of its connection expires, or when nothing arrives for
// wire.HeartbeatTimeout. An agent can register only as its own allocation.
package session
