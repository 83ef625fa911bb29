// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

// registry holds every policy that Kolo ships.
var registry = []entry{
	fifoEntry,
	elasticFIFOEntry,
	roundRobinEntry,
	srjfEntry,
	elasticSRJFEntry,
	tiresiasEntry,
	elasticTiresiasEntry,
	ffdlEntry,
	afslEntry,
	optimusEntry,
	dragonEntry,
	themisEntry,
	elasticFlowEntry,
	gandivaEntry,
	oasisEntry,
	weightedFairEntry,
	koloEntry,
}
