// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

// maxBisection is the largest set for which all halves are tried: 20 GPUs have
// 184,756.
const maxBisection = 20

// Bisection returns the NVLink bandwidth in MB/s, in one direction, between the two
// halves of the set at its weakest cut. In a set with an odd number of GPUs, one
// half has one GPU more. The bandwidth is 0 if some cut crosses no NVLink, if the
// driver reports no rates, or if the set has only one GPU.
//
// The bandwidths of pairs with direct links add up. With NVSwitch, they do not: all
// traffic between the halves passes through the ports of both halves, so the half
// with less port bandwidth is the limit.
//
// ok is false for sets of more than 20 GPUs, because there would be too many cuts
// to try.
func (m *Matrix) Bisection(set []int) (mbps int, ok bool) {
	n := len(set)
	if n > maxBisection {
		return 0, false
	}
	if n < 2 {
		return 0, true
	}
	best := -1
	left := make([]bool, n)
	var walk func(from, size int)
	walk = func(from, size int) {
		if size == n/2 {
			if c := m.cut(set, left); best < 0 || c < best {
				best = c
			}
			return
		}
		for i := from; i < n; i++ {
			left[i] = true
			walk(i+1, size+1)
			left[i] = false
		}
	}
	walk(0, 0)
	return best, true
}

// cut returns the bandwidth between the GPUs of the set in the left half and the
// others.
func (m *Matrix) cut(set []int, left []bool) int {
	sum := 0
	// Ports to switches, by island and half.
	ports := map[int]*[2]int{}
	for a, i := range set {
		switched := false
		for b, j := range set {
			l := m.Link(i, j)
			if l.NVLinks == 0 {
				continue
			}
			switched = switched || l.Switched
			if a < b && left[a] != left[b] && !l.Switched {
				sum += l.MBps
			}
		}
		if !switched {
			continue
		}
		half := 0
		if left[a] {
			half = 1
		}
		island := m.Island(i)
		if ports[island] == nil {
			ports[island] = &[2]int{}
		}
		ports[island][half] += m.egress[i]
	}
	for _, p := range ports {
		sum += min(p[0], p[1])
	}
	return sum
}
