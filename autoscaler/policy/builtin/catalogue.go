// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// Default is the policy used if the configuration names none.
const Default = "kolo"

// Policies lists the policies that Kolo ships.
var Policies = registry.List{
	fifoEntry,
	elasticFIFOEntry,
	roundRobinEntry,
	srjfEntry,
	elasticSRJFEntry,
	tiresiasEntry,
	elasticTiresiasEntry,
	ffdlEntry,
	polluxEntry,
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
