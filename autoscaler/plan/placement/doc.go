// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package placement models where workers find room on nodes: the free resources, how
// many workers of a job fit, and to which nodes they go.
//
//	nodes ──> Capacity <── Take (existing workers)
//	             │
//	             ├─ Room    how many more fit
//	             ├─ Pack    puts them close together ──> Shares
//	             └─ Spread  puts them far apart      ──> Shares
//
//	Site (a job's group in a domain, or a node)
//	  ├─ Grow     chooses where workers go, in the smallest domain that holds them
//	  ├─ Release  chooses where they leave, whole domains first
//	  └─ GrowFaster, ReleaseFaster  the same, but apart if steps are known to be faster then
//
// The planner places workers with this package to check that growth has room; Nomad then
// decides where the workers really go. The simulator has no Nomad, so these placements are
// final there. The package depends neither on jobs nor on policies and does no I/O. The
// same calls give the same places.
package placement
