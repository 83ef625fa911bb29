// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package discovery answers two questions that an agent has about its job: whether
// a caller is really one of its peers, and which of the peers leads. Package
// registry lists the peers.
//
//	Nomad ── package registry ───────> View ─┬─> Presence ─┐
//	                                         ├─> Elector ──│─> Leadership, Form
//	peers <── Probe/Promise/Lead/Accept ─────┘       ▲     ▼
//	  └──────────── mutual TLS ────────────────> Transport, Verifier <── Keys
//	own identity ──> Certifier ──────────────────────┘
//
// Elector follows the job's leader, or becomes it. It is also the gate that every
// new ring must pass (Form). Its rules are in package election, which has no I/O
// and no clock.
//
// # Who is a peer
//
// Agents speak gRPC over TLS 1.3. Each side has an Ed25519 key of its own and a
// self-signed certificate. One extension of the certificate holds the header and
// claims of the agent's workload identity, and a proof that the agent knows Nomad's
// signature of them. The proof is bound to the TLS key and to the certificate's
// validity (package possession). The identity itself is never sent: Nomad would
// accept it from anyone who receives it, whatever its audience.
//
// This needs nothing that a task does not have already: no certificate authority,
// no variable that the job would need a policy to write, and no shared secret that
// would have to be replaced when one allocation leaks it.
//
// Verifier accepts a certificate if it is valid now (for a quarter of an hour at
// most), its proof holds against Nomad's public keys, and its claims belong to this
// namespace and job, have not expired, and are for audience "kolo" or Nomad itself
// (the default identity). The claims' task must be the task that agents run in.
// Within this agent's own group that is its own task. In another group of the ring,
// the task may have another name, which neither the agent's identity nor the
// registry reports, so any task of another group is accepted.
//
// The client and the server of a connection check more:
//
//   - The client knows from the registry which allocation it calls. It ends the
//     handshake before it sends anything if the certificate is another allocation's.
//     A process that has taken over the port of an ended allocation receives only the
//     first TLS message, which does not identify the caller.
//   - The server asks Presence, which follows the registry, whether the caller's
//     allocation is live, and reads nothing of a call before that. The registry
//     filters by the job's full ID, so siblings of a dispatched or periodic job,
//     whose identities name their parent, do not pass as peers. A caller that is
//     about to leave, and is therefore no longer registered, may open a session and
//     ask who leads; it has no vote.
//
// Neither claims nor registry hold the job's version. So an allocation of an
// earlier version is a peer as long as Nomad keeps it registered, which it does in
// a rolling update.
//
// # When a connection ends
//
// A connection ends half a minute (the leeway for clocks) after the peer's
// certificate has expired. A certificate expires together with the identity, and
// after a quarter of an hour at the latest. So identities that never expire,
// Nomad's default, do no harm: their holder must prove again and again that it is
// registered. An agent makes a new certificate when half of the old one's life is
// over or Nomad has renewed the identity, and it renews its sessions before they
// end.
//
// An allocation that leaves the registry keeps its connections, because Nomad
// deregisters an allocation first and then gives it time to leave the ring. It
// cannot renew them for longer than Presence allows. While Nomad cannot be reached
// at all, no agent gets a new identity, and expired connections stay open until
// Nomad answers again.
package discovery
