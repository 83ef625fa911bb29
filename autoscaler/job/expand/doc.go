// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package expand writes jobs with one group of workers per domain of a topology.
//
// Kolo places workers by the counts of groups, and a group that is bound to one
// rack by a constraint is what it can place by rack. Such groups differ in the
// rack alone, so that one block of HCL2 makes them all:
//
//	group "workers" {            dynamic "group" {
//	  count = 2                    for_each = var.meta_rack
//	  scaling {           Job      labels   = ["workers-${group.value}"]
//	    min = 2          ────>     content {
//	    max = 8                      count = 0
//	    policy {                     scaling {
//	      kolo {}                      min = 0 …
//
// The list of racks is a variable (Vars), so that a job is written once, and a rack
// that is added later needs the list only.
//
// What a job states of all its workers is stated once: counts and scaling.min go
// to 0, or each rack would start that many, and the bounds that the job had move
// into its kolo block. All else of the file stays as it is, except the
// indentation of the groups; the text of heredocs is not touched.
package expand
