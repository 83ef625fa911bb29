// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package election holds the rules by which the agents of one job agree on a
// leader, and by which a leader may form a ring. It has no I/O and no clock of
// its own: a Machine takes events and returns actions.
//
// # Leaders
//
//	         view names me                no one leads, I go first
//	waiting ──────────────> campaigning ───────────────────────────> promising
//	                          │  ^  <───────── refused ────────────  │
//	       a leader reports   │  │ leader lost                       │ quorum
//	       that it leads      v  │                                   v
//	                        following <──────── higher term ───── leading
//
// An agent waits until the registry names it. Then it campaigns: it asks its peers
// whom they follow (Probe), and follows the leader if there is one. In a large job it
// asks some peers first (Config.First), and the others only if none of these knows a
// leader or has precedence, or after some rounds. If there is no leader, the first
// agent by group, index and allocation ID asks all others for a
// promise (Promise) to obey no term below its own, and leads once it has a quorum
// (below). It announces that to everybody (Lead) until each has confirmed it.
//
// A leader stays until it is lost, leaves, is dropped by Nomad, or meets a leader
// with a higher term. An agent with a lower index that comes back changes nothing.
// Terms follow the wall clock, so that they keep rising even if every agent that
// remembers them has died. An agent obeys no term lower than one that it has ever
// promised.
//
// # Rings
//
// There may be two leaders for a while, if one is cut off and does not know it yet.
// There must never be two rings. So a leader proposes each new ring to the peers
// (Accept), and the ring starts only if all of this holds:
//
//   - every host of the new ring agrees,
//   - there is a quorum (below),
//   - the registry, read after the last answer came in, still lists this agent
//     under the registration that it had at the start. The quorum is judged by the
//     other agents in that reading. The ring counts as formed at the moment of that
//     reading.
//
// An agent agrees if it has promised no higher term and knows of no ring that the
// leader has not named; then it remembers the ring. A ring that may have been
// formed, without anyone knowing for sure, counts as known.
//
// # Quorum
//
// There is a quorum if the peers that agree are one of these:
//
//   - a majority of each known ring: more than half of its hosts, or half of them
//     including the first. Two majorities have a host in common, and that host
//     remembers. A host has this vote only while it is the same process under the
//     same registration;
//   - everybody: every agent in the registry agrees or has just refused the
//     connection (nothing runs there), and every host of a known ring agrees, is
//     dead, or is no longer in the registry.
//
// A candidate needs promises from the same quorum to lead, but does not read the
// registry again.
//
// It follows that of any two rings formed, one was built on the other, directly or
// through further rings. The only exception: no host of the older ring was left
// when the younger one was formed, because each was dead or dropped from the
// registry. TestProperty_OneRing tests exactly that. Nomad drops hosts that it can
// no longer reach. So a group of hosts that is cut off keeps training in its ring,
// but can never form a second ring next to its successor. Without the registry no
// ring is formed at all.
//
// The rules assume that reads of the registry are linearizable, that a refused
// connection means a dead process (and not a firewall that looks like one), and
// that later processes of an allocation have higher numbers. No clocks are
// compared. Terms follow the clock only to keep rising when no agent is left that
// knows the last term.
package election
