// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package placement models where workers find room on nodes: what is free, how
// many workers of a job fit, and on which nodes they go.
//
//	nodes ──> Capacity <── Take (workers that are there)
//	             │
//	             ├─ Room    how many more fit
//	             ├─ Pack    puts them close together ──> Shares
//	             └─ Spread  puts them far apart      ──> Shares
//
//	Site (a job's group in a domain, or a node)
//	  ├─ Grow     chooses where workers go, in the smallest domain that holds them
//	  ├─ Release  chooses where they leave, domains as wholes
//	  └─ GrowFaster, ReleaseFaster  the same, but apart where steps are known to be faster so
//
// The planner places workers with it to know that growth is not asked for in
// vain; Nomad then decides where they really go. The simulator has no Nomad, and
// places with it for good. It knows neither jobs nor policies, does no I/O, and
// the same calls give the same places.
package placement
