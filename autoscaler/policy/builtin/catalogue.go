// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// Default is the policy used where none is named.
const Default = "kolo"

// Policies are those that Kolo ships.
var Policies = registry.List{
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
