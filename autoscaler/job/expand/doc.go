// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package expand rewrites a job so that it has one group of workers per domain of a
// topology.
//
// Kolo places workers by setting the counts of groups. To place workers by rack, it
// needs a group per rack, bound to the rack by a constraint. Such groups differ
// only in the rack, so one block of HCL2 defines them all:
//
//	group "workers" {            dynamic "group" {
//	  count = 2                    for_each = var.meta_rack
//	  scaling {           Job      labels   = ["workers-${group.value}"]
//	    min = 2          ────>     content {
//	    max = 8                      count = 0
//	    policy {                     scaling {
//	      kolo {}                      min = 0 …
//
// The list of racks is a variable (Vars). The job is written once, and a new rack
// only needs to be added to the list.
//
// Settings that apply to all workers of the job are stated once. Counts and
// scaling.min become 0, because otherwise each rack would start that many workers.
// The job's own bounds move into its kolo block. The rest of the file stays as it
// is, except for the indentation of the groups; the text of heredocs is not
// touched.
package expand
