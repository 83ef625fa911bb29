// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import "slices"

// Capacity returns the GPU types of the nodes in order, and the number of GPUs of each type.
func (s *Snapshot) Capacity() (types []string, gpus []int) {
	for i := range s.Nodes {
		if t := s.Nodes[i].Type; (i == 0 || t != s.Nodes[i-1].Type) && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	slices.Sort(types)
	gpus = make([]int, len(types))
	for i, t := 0, 0; i < len(s.Nodes); i++ {
		n := &s.Nodes[i]
		if n.Type != types[t] {
			t = slices.Index(types, n.Type)
		}
		gpus[t] += max(0, n.GPUs)
	}
	return types, gpus
}
