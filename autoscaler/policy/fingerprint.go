// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"fmt"
	"hash/fnv"
	"math"
)

// Fingerprint returns a hash of everything whose change counts as an event for
// policies that plan on events only: jobs, bounds, capacity and the shapes of
// curves. The passing of time does not change it.
func (s *Snapshot) Fingerprint() uint64 {
	h := fnv.New64a()
	add := func(parts ...any) { h.Write(fmt.Append(nil, parts...)) }
	for _, n := range s.Nodes {
		add(n.ID, n.Type, n.GPUs, ";")
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		add(j.ID, j.Tenant, j.Type, j.Weight, j.Priority, j.Min, j.Max, j.Preferred, j.Sizes, j.Preemptible, j.Deadline, ";")
		add(j.Curve.Largest(), ";")
		points := j.Curve.Points()
		for _, p := range points {
			add(p.Size, math.Round(100*math.Log(p.StepTime/points[0].StepTime)), ",")
		}
	}
	return h.Sum64()
}
