// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import "container/heap"

// agenda holds the running jobs by the time of their next own event: a completion, or a
// first measurement.
type agenda []*job

var _ heap.Interface = (*agenda)(nil)

// Len implements heap.Interface.
func (a agenda) Len() int { return len(a) }

// Less implements heap.Interface. Jobs with the same time are in the order of their
// numbers, so that the order never depends on how the heap grew.
func (a agenda) Less(i, k int) bool {
	if a[i].next != a[k].next {
		return a[i].next < a[k].next
	}
	return a[i].num < a[k].num
}

// Swap implements heap.Interface.
func (a agenda) Swap(i, k int) {
	a[i], a[k] = a[k], a[i]
	a[i].heapAt, a[k].heapAt = i, k
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	j := x.(*job)
	j.heapAt = len(*a)
	*a = append(*a, j)
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	old := *a
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	j.heapAt = -1
	return j
}

// set adds the job, or moves it after a change of its next time.
func (a *agenda) set(j *job) {
	if j.heapAt < 0 {
		heap.Push(a, j)
		return
	}
	heap.Fix(a, j.heapAt)
}

// drop removes the job if it is in the agenda.
func (a *agenda) drop(j *job) {
	if j.heapAt >= 0 {
		heap.Remove(a, j.heapAt)
	}
}
