// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package discovery answers two questions an agent has about its job: is the one
// that calls me really one of my peers, and which of us leads. Package registry
// answers who they are.
//
//	Nomad ── package registry ───────> View ─┬─> Presence ─┐
//	                                         ├─> Elector ──│─> Leadership, Form
//	peers <── Probe/Promise/Lead/Accept ─────┘       ▲     ▼
//	  └──────────── mutual TLS ────────────────> Transport, Verifier <── Keys
//	own identity ──> Certifier ──────────────────────┘
//
// Elector follows or provides the job's one leader, and is the gate that every new
// ring passes (Form). Its rules live in package election, which has no I/O and no
// clock.
//
// # Who is a peer
//
// Agents speak gRPC in TLS 1.3. Each side has an Ed25519 key of its own and a
// certificate, signed by itself, that holds in one extension the header and
// claims of its workload identity and a proof that it knows Nomad's signature
// of them. The proof is bound to the TLS key and to the certificate's validity
// (package possession). The identity itself is never sent: Nomad would accept it
// from anyone who receives it, whatever its audience.
//
// That takes nothing but what each task has: no certificate authority, no
// variable that a job would need a policy to write, no secret that all share and
// that would have to be replaced when one allocation loses it.
//
// Verifier believes a certificate that is valid now, for a quarter of an hour at
// most; whose proof holds against Nomad's public keys; and whose claims are of
// this namespace and job, not expired, for audience "kolo" or Nomad itself (the
// default identity), and of the task that agents run in: within a group that is
// this agent's own task. The agents of another group of the ring may be in a
// task of another name, which neither their identity nor the registry reports,
// so any task of another group is believed.
//
// Dialler and server ask for more:
//
//   - The dialler knows which allocation it calls, from the registry, and
//     another's certificate ends the handshake before anything is sent. A
//     stranger who has taken the port of an ended allocation receives the first
//     message of TLS and no more: not who calls.
//   - The server asks Presence, which follows the registry, whether the caller's
//     allocation is live. The registry filters by the job's full ID, so siblings
//     of a dispatched or periodic job, whose identities name their parent, are
//     not taken for peers. Nothing of a call is read before. A caller that is
//     about to leave, and therefore registered no more, may open a session and
//     ask who leads; it has no vote.
//
// Neither claims nor registry hold the job's version, so an allocation of an
// earlier version is a peer as long as Nomad keeps it registered, as it does in
// a rolling update.
//
// # When it ends
//
// A connection ends half a minute (the leeway for clocks) after the peer's
// certificate has expired. A certificate expires with the identity, at the
// latest after a quarter of an hour, so identities that never expire, Nomad's
// default, do no harm: their holder must be registered again and again. Agents
// make a new certificate when half of one's life is over or Nomad has renewed
// the identity, and renew their sessions before they end.
//
// An allocation that leaves the registry keeps its connections: Nomad takes it
// from there first, and then gives it time to leave the ring. But it cannot
// renew them for longer than Presence allows. Where Nomad cannot be reached at
// all, no one gets a new identity, and expired connections stay until it
// answers again.
package discovery
