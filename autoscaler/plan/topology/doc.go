// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package topology models how the nodes of a pool are connected, and scores the
// placement of a job's workers in it.
//
//	levels, outermost first          domains
//	  meta.block                 b1 ───────┐    b2
//	  meta.rack                  r1    r2  │    r3
//	  node                       n1 n2 n3 ...
//	  device.island              0 1 ...          ── leaves: bins of nodes
//
// A level is named after the source of its values. A domain is one value of a level,
// inside one domain of the next outer level. The pool itself is the root and has no
// number. A leaf is a bin of a node, as in package placement; every node has at least
// one. A placement consists of Parts, each a number of workers at a leaf.
//
//	Node (what Nomad states) ──> New ──> Tree ──> Problems
//	                                      ├──> Slots   free and used, by domain
//	                                      ├──> Spread  the outermost level crossed
//	                                      └──> Score   compares two placements
//
// # The score
//
// The better one of two placements of the same workers is, in this order,
//
//  1. the one whose outermost crossed level is further inside (locality levels:
//     a task goes where most tasks of its job are already, as in DLTAP: Qiao et
//     al., ITM Web of Conferences 12, 2017), then
//  2. the one at fewer domains of that level, then
//  3. the one with the lower communication cost: the sum, over all pairs of
//     workers, of the distance between the two (Amaral et al., Topology-Aware GPU
//     Scheduling for Learning Workloads in Cloud Environments, SC'17, section 4).
//     The distance grows with the level that a pair crosses, as there. Inside a
//     leaf it depends on the class of the slowest link that the device plugin
//     reports.
//
// Rule 3 alone would prefer 15 workers in one rack and one in another rack to 8 and 8
// workers on two nodes of one rack. But a ring is as slow as its slowest link, even if only
// few pairs of workers cross that link.
//
// # Missing and ambiguous values
//
// Nodes without a value of a level share one domain below each parent. If no node of a
// parent has a value, the tree only has uneven depth, which does no harm. If the same value
// appears below two parents, there are two domains. Missing and ambiguous values are
// reported to the operator as Problems. The same nodes, in any order, give the same tree.
//
// The package is pure and does not depend on jobs. Domains and leaves are numbers, so that
// 100,000 of them cost little.
package topology
