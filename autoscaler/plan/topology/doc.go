// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package topology models how the nodes of a pool hang together, and scores
// where the workers of a job are in it.
//
//	levels, outermost first          domains
//	  meta.block                 b1 ───────┐    b2
//	  meta.rack                  r1    r2  │    r3
//	  node                       n1 n2 n3 ...
//	  device.island              0 1 ...          ── leaves: bins of nodes
//
// A level is named by where its values come from. A domain is one value of a
// level, below one domain of the level outside it; the pool itself is the root
// and has no number. A leaf is a bin of a node, as package placement has them;
// every node has at least one. A placement is Parts: so many workers at a leaf.
//
//	Node (what Nomad states) ──> New ──> Tree ──> Problems
//	                                      ├──> Slots   free and used, by domain
//	                                      ├──> Spread  the outermost level crossed
//	                                      └──> Score   compares two placements
//
// # The score
//
// Of two placements of the same workers the better one is, in this order,
//
//  1. the one whose outermost crossed level is further inside (locality levels:
//     a task goes where most tasks of its job are already, as in DLTAP: Qiao et
//     al., ITM Web of Conferences 12, 2017), then
//  2. the one at fewer domains of that level, then
//  3. the one with the lower communication cost: the sum, over all pairs of
//     workers, of the distance between the two (Amaral et al., Topology-Aware GPU
//     Scheduling for Learning Workloads in Cloud Environments, SC'17, section 4).
//     The distance grows with the level that a pair crosses, as there; inside a
//     leaf it is that of the class of the slowest link that the device plugin
//     reports.
//
// The third alone would prefer 15 workers and one in another rack to 8 and 8 in
// one rack: a ring is as slow as its slowest link, however few pairs cross it.
//
// # What is tolerated
//
// A node without a value of a level is in a domain named so, of its own in each
// parent: where no node of the parent has one, that is a tree of uneven depth and
// no harm. A value below two parents makes two domains. Both are Problems, for
// the operator. The same nodes, in any order, give the same tree.
//
// The package is pure and knows no jobs; domains and leaves are numbers, so that
// 100,000 of them cost little.
package topology
