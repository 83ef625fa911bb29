// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// defaultPolicies returns the policies for a first comparison, as far as this build has
// them.
func defaultPolicies() string {
	have := builtin.Policies.Names()
	var out []string
	for _, name := range []string{"fifo", "elastic-fifo", "tiresias", "afs-l", "kolo"} {
		if slices.Contains(have, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// contestants returns the policies that -policy names, one for each placement.
func (a *simulateArgs) contestants(placed []sim.Placement) ([]sim.Contestant, error) {
	specs := splitOutside(a.policies)
	if a.policies == "all" {
		specs = builtin.Policies.Names()
	}
	var out []sim.Contestant
	for _, spec := range specs {
		name, class := spec, a.information
		if i := strings.LastIndex(spec, "@"); i > strings.LastIndex(spec, ")") {
			name, class = spec[:i], spec[i+1:]
		}
		info, err := sim.ParseClass(class, a.noise)
		if err != nil {
			return nil, badFlag("-policy %.80s: %v", spec, err)
		}
		info.LengthError, info.NoiseError = a.lengthError, a.noiseError
		if _, err := builtin.Policies.Parse(name); err != nil {
			return nil, badFlag("-policy %.80s: %v", spec, err)
		}
		for _, p := range placed {
			label := name
			if len(placed) > 1 {
				label += " " + p.String()
			}
			out = append(out, sim.Contestant{
				Label: label, Info: info, Placement: &p,
				New: func() (policy.Policy, error) { return builtin.Policies.Parse(name) },
			})
		}
	}
	if len(out) == 0 {
		return nil, badFlag("-policy: want at least one policy")
	}
	return out, nil
}
