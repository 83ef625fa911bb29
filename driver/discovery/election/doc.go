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
// An agent waits until the registry names it. Then it campaigns: it asks every peer
// whom it follows (Probe), and follows the leader if there is one. If not, the first
// by group, index and allocation ID asks all for a promise (Promise) to obey no
// term below its own, and leads once it has a quorum (below). It reports that to
// everybody (Lead) until each has confirmed it.
//
// A leader stays until it is lost, leaves, is dropped by Nomad, or meets one of
// a higher term: a lower index that comes back changes nothing. Terms follow the
// wall clock, so that they go on rising where all who remember them have died. An
// agent obeys no term lower than one that it has ever promised.
//
// # Rings
//
// There may be two leaders for a while: one cut off that does not know it yet.
// What must never be is two rings. So a leader proposes each new ring to the peers
// (Accept), and the ring starts only when all this holds:
//
//   - every host of the new ring agrees,
//   - there is a quorum (below),
//   - the registry, asked after the last answer came in, names this agent under
//     the registration it had when it began. What else it names then is what the
//     quorum is judged by. That reading is the moment at which the ring is formed.
//
// An agent agrees if it has promised no higher term and knows of no ring that
// the leader has not named; then it remembers the ring. Rings that may have been
// formed, but are not known to be, count as known.
//
// # Quorum
//
// There is a quorum when the peers that agree are one of these:
//
//   - a majority of each known ring: more than half of its hosts, or half of them
//     with the first one. Two majorities have a host in common, and that host
//     remembers. A host has this vote only while it is the same process under the
//     same registration;
//   - everybody: all that the registry names agree or have just refused the
//     connection (nothing runs there), and every host of a known ring agrees, is
//     dead, or is out of the registry.
//
// To lead, the promises must amount to the same; the registry is not asked again.
//
// It follows: of any two rings formed, one was built on the other (or on one
// built on it, and so on), unless no host of the older one was left when the
// younger one was formed: each was dead, or dropped from the registry.
// TestProperty_OneRing tests exactly that. Nomad drops what it has lost sight of,
// so a cut-off group of hosts goes on training in the ring it has, but can never
// form a second ring next to that of its successor. Without the registry no ring
// is formed at all.
//
// What is taken for granted: reads of the registry are linearizable, a refused
// connection means a dead process (and not a firewall that pretends it), and the
// processes of an allocation have rising numbers. No clocks are compared. Terms
// follow them only to go on rising where no one is left who knows the last one.
package election
