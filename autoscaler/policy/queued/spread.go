// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// spread gives the leaves their shares, and returns those to which that makes a
// difference. In a pool of several GPU types, the slots of each type are divided by the same
// rule between the leaves whose jobs hold or need them. The rest of a leaf's slots is of the
// types of which most are free.
func (d *decision) spread(shares []int) (changed []*member) {
	free, typed := slices.Clone(d.free), make([][]int, len(d.members))
	left := make([]int, len(d.members))
	give := func(k, t, n int) {
		n = max(0, min(n, left[k], free[t]))
		typed[k][t], left[k], free[t] = typed[k][t]+n, left[k]-n, free[t]-n
	}
	for k, m := range d.members {
		left[k], typed[k] = shares[m.leaf]-m.fixed, make([]int, len(d.types))
	}
	if len(d.types) > 1 {
		for k, m := range d.members {
			for t, n := range d.held(m, true) {
				give(k, t, n)
			}
		}
		for t, byLeaf := range d.divideTypes(left, typed) {
			for k, m := range d.members {
				give(k, t, byLeaf[m.leaf]-typed[k][t])
			}
		}
	}
	for k, m := range d.members {
		for left[k] > 0 {
			t := most(free)
			if t < 0 {
				break
			}
			give(k, t, left[k])
		}
		if !m.asked {
			m.due = shares[m.leaf]
		}
		if !m.asked || m.share != shares[m.leaf] || !slices.Equal(m.typed, typed[k]) {
			m.share, m.typed = shares[m.leaf], typed[k]
			m.most = max(m.most, m.share)
			for t, n := range m.typed {
				if m.mostOf == nil {
					m.mostOf = make([]int, len(d.types))
				}
				m.mostOf[t] = max(m.mostOf[t], n)
			}
			changed = append(changed, m)
		}
	}
	return changed
}

// divideTypes divides the slots of each type between the leaves, within what is left of their
// shares beyond the firm slots that they have.
func (d *decision) divideTypes(left []int, firm [][]int) [][]int {
	demand := make([][]queue.Demand, len(d.types))
	for t := range demand {
		demand[t] = make([]queue.Demand, len(d.layout.Nodes))
	}
	for k, m := range d.members {
		held, needed := d.held(m, false), d.needed(m)
		for t := range d.types {
			has := firm[k][t]
			demand[t][m.leaf] = queue.Demand{Firm: has, Wanted: has + max(0, min(left[k], max(held[t], needed[t])-has))}
		}
	}
	out := make([][]int, len(d.types))
	for t := range d.types {
		out[t] = d.layout.Divide(d.free[t], demand[t])
	}
	return out
}

// held returns the slots that the jobs of a leaf hold by type: all, or only the firm ones.
func (d *decision) held(m *member, firm bool) []int {
	out := make([]int, len(d.types))
	for k := range m.jobs {
		j := &m.jobs[k]
		t := slices.Index(d.types, cmp.Or(j.Type, j.Held))
		if t < 0 || j.Count == 0 || firm && j.Preemptible {
			continue
		}
		n := j.Count
		if firm {
			n = min(n, j.Sizes.Above(max(1, j.Min)-1))
		}
		out[t] += n * max(1, j.PerWorker)
	}
	return out
}

// needed returns the slots that the jobs of a leaf could use of each type that they name.
func (d *decision) needed(m *member) []int {
	out := make([]int, len(d.types))
	for k := range m.jobs {
		if t := slices.Index(d.types, m.jobs[k].Type); t >= 0 {
			out[t] += m.jobs[k].Max * max(1, m.jobs[k].PerWorker)
		}
	}
	return out
}

// most returns the index of the greatest of some amounts, -1 if none is positive.
func most(of []int) int {
	at := -1
	for i, n := range of {
		if n > 0 && (at < 0 || n > of[at]) {
			at = i
		}
	}
	return at
}
