// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
)

// cut brings an answer within the slots of its queue. Jobs that must not be suspended have
// their minimum; what was given beyond the slots is taken from the youngest jobs first,
// and what they have beyond their minimum before any is suspended.
func (d *decision) cut(m *member) {
	for k := range m.jobs {
		a, j := &m.answer.Allocations[k], &m.jobs[k]
		if low := j.Sizes.Above(max(1, j.Min) - 1); j.Count > 0 && !j.Preemptible && a.Count < min(low, j.Max) {
			a.Count, a.Reason, a.Repeats = low, "keeps its minimum: it must not be suspended", false
		}
	}
	for t := range d.types {
		m.cutTo(m.typed[t], func(k int) bool { return m.typeOf(k) == d.types[t] || len(d.types) == 1 })
	}
	m.cutTo(m.share-m.fixed, func(int) bool { return true })
	m.used = m.fixed
	for k := range m.jobs {
		m.used += m.slots(k)
	}
}

func (m *member) slots(k int) int {
	return m.answer.Allocations[k].Count * max(1, m.jobs[k].PerWorker)
}

// typeOf returns the GPU type that a job is given.
func (m *member) typeOf(k int) string {
	return cmp.Or(m.jobs[k].Type, m.answer.Allocations[k].Type, m.jobs[k].Held)
}

func (m *member) cutTo(most int, of func(k int) bool) {
	over := -most
	for k := range m.jobs {
		if of(k) {
			over += m.slots(k)
		}
	}
	for _, suspend := range []bool{false, true} {
		for k := len(m.jobs) - 1; k >= 0 && over > 0; k-- {
			a, j := &m.answer.Allocations[k], &m.jobs[k]
			if !of(k) || a.Count == 0 {
				continue
			}
			per := max(1, j.PerWorker)
			low := j.Sizes.Above(max(1, j.Min) - 1)
			n := max(low, j.Sizes.AtMost(max(1, a.Count-(over+per-1)/per)))
			if suspend && (j.Preemptible || j.Count == 0) {
				n = 0
			}
			if n >= a.Count {
				continue
			}
			over -= (a.Count - n) * per
			a.Count, a.Reason, a.Repeats = n, "its queue has no more slots than this", false
		}
	}
}
