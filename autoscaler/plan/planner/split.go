// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// shrink plans how a job gets down to its target. Groups with the fewest workers shrink
// first, so that the job ends up in few groups.
func (b *planBuilder) shrink(j int, w Want) {
	job := &b.Jobs[j]
	from, to := job.Count(), b.target[j]
	order := make([]int, len(job.Groups))
	for g := range order {
		order[g] = g
	}
	slices.SortStableFunc(order, func(x, y int) int { return job.Groups[x].Count - job.Groups[y].Count })
	counts := job.counts()
	left := from - to
	if job.Ratio != nil {
		counts, left, order = job.Shape(to), 0, nil
	}
	// Workers that have no place yet go before any that train.
	for _, g := range order {
		n := min(left, b.pending(j, g), counts[g]-job.Groups[g].Min)
		if n > 0 {
			counts[g] -= n
			left -= n
		}
	}
	var first []int // decides between groups that are equal by the job's locality
	if b.Packed[job.Pool] && job.Ratio == nil {
		order = b.emptying(j, order, counts, left)
		first = order
	}
	if job.Locality != nil {
		order, left = nil, b.leave(job, counts, left, first)
	}
	for _, g := range order {
		n := min(left, counts[g]-job.Groups[g].Min)
		if n > 0 {
			counts[g] -= n
			left -= n
		}
	}
	b.emptied(j, counts)
	if b.unplaced[j] {
		loose := 0
		for g := range job.Groups {
			loose += b.pending(j, g)
		}
		a := b.action(j, counts, Rollback, fmt.Sprintf("%d of %d workers found no place in %s", loose, from, b.o.PlacementTimeout))
		a.Unplaced = b.unplacedGroups(j)
		b.act(j, a)
		return
	}
	cause := Shrink
	if to == 0 {
		cause = Suspend
	}
	b.act(j, b.action(j, counts, cause, w.Reason))
}

// grow plans how far a job gets towards its target with the current room, or why it has to
// wait. more is the time until which more room may come; zero means that none will.
func (b *planBuilder) grow(j int, w Want, more time.Time) {
	job := &b.Jobs[j]
	from, to := job.Count(), b.target[j]
	if alive := job.Alive(); alive > from {
		b.coming[job.Pool] = true
		b.wait(j, to, time.Time{}, "workers of its last shrink are still ending")
		return
	}
	for g := range job.Groups {
		if b.pending(j, g) > 0 {
			b.coming[job.Pool] = true
			b.wait(j, to, job.LastChange.Add(b.o.PlacementTimeout), "workers it asked for are still being placed")
			return
		}
	}
	for g := range job.Groups {
		b.requeueAt(job.Groups[g].GrowAfter)
	}
	counts, room := b.capacity.split(j, to-from)
	reach := job.allowed(from + room)
	switch {
	case from+room >= to:
		reach = to
	case !more.IsZero() && (from > 0 || reach == 0):
		// More room is coming, and one resize is better than two. But a job that can
		// start does not wait.
		b.coming[job.Pool] = true
		b.wait(j, to, more, fmt.Sprintf("room for %d more now, the rest when workers that end have gone", room))
		return
	case (from > 0 || reach == 0) && b.lentRoom(j):
		b.coming[job.Pool] = true
		b.wait(j, to, b.now.Add(b.o.PlacementTimeout), fmt.Sprintf("room for %d more now, the rest when spares have gone", room))
		b.noteShortfall(to - from - room)
		return
	}
	if reach <= from {
		need := max(job.smallest(), job.Sizes.Above(from)) - from
		b.wait(j, to, time.Time{}, fmt.Sprintf("needs room for %d more%s, and there is room for %d", need, job.within(), room))
		if from == 0 {
			b.gangs = append(b.gangs, j)
			b.lastWait().Reason = b.lacks(j)
		}
		b.noteShortfall(to - from)
		return
	}
	if reach < from+room {
		counts, _ = b.capacity.split(j, reach-from)
	}
	for g, n := range counts {
		b.capacity.take(j, g, n-job.Groups[g].Count)
	}
	cause := Grow
	switch {
	case from == 0 && job.Started:
		cause = Resume
	case from == 0:
		cause = Start
	}
	b.act(j, b.action(j, counts, cause, w.Reason))
	if reach < to {
		b.wait(j, to, time.Time{}, fmt.Sprintf("there is room for %d of %d more%s", reach-from, to-from, job.within()))
		b.noteShortfall(to - reach)
	}
}

// counts returns the current counts of the job's groups.
func (job *Job) counts() []int {
	out := make([]int, len(job.Groups))
	for g := range job.Groups {
		out[g] = job.Groups[g].Count
	}
	return out
}

// split distributes n more workers over a job's groups, and returns the new counts and how
// many found room. Groups that hold most of the job come first, then those with most room,
// for few groups and then few nodes.
func (c *capacity) split(j, n int) ([]int, int) {
	if c.cluster.Jobs[j].Ratio != nil {
		return c.splitUnits(j, n)
	}
	return c.splitOver(j, n, func(int) bool { return false })
}

// splitOver does what split does, without some of the groups.
func (c *capacity) splitOver(j, n int, without func(g int) bool) ([]int, int) {
	job := &c.cluster.Jobs[j]
	counts := job.counts()
	more := func(g, n int) int {
		group := &job.Groups[g]
		if without(g) || group.GrowAfter.After(c.now) {
			return 0
		}
		return max(0, c.free(j, g, min(n, group.Max-counts[g])))
	}
	if job.Locality != nil && (len(job.Groups) > 1 || job.Locality.Within > 0) {
		return c.splitByDomain(j, n, without)
	}
	if len(job.Groups) == 1 {
		k := more(0, n)
		counts[0] += k
		return counts, k
	}
	// Groups may share nodes, so that one takes the room of another: take on trial, group
	// by group.
	order := make([]int, len(job.Groups))
	space := make([]int, len(job.Groups))
	for g := range order {
		order[g] = g
		space[g] = more(g, n)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(job.Groups[b].Count-job.Groups[a].Count, space[b]-space[a])
	})
	given := 0
	for _, g := range order {
		if c.packs(j) && given < n {
			k, rollback := c.fillUsed(j, order, counts, n-given, more)
			defer rollback()
			given += k
		}
		k, rollback := c.try(j, g, more(g, n-given))
		defer rollback()
		counts[g] += k
		given += k
	}
	return counts, given
}

// action returns the action that leads to the new counts. Groups that shrink come first.
func (b *planBuilder) action(j int, counts []int, cause Cause, reason string) Action {
	job := &b.Jobs[j]
	a := Action{Job: job.Key, Index: job.Index, Cause: cause, Reason: reason, From: job.Count()}
	for g, n := range counts {
		a.To += n
		if old := job.Groups[g].Count; n != old {
			a.Steps = append(a.Steps, Step{Group: job.Groups[g].Name, From: old, To: n})
		}
	}
	if a.Reason == "" {
		a.Reason = fmt.Sprintf("%d→%d", a.From, a.To)
	}
	slices.SortStableFunc(a.Steps, func(x, y Step) int { return (x.To - x.From) - (y.To - y.From) })
	if job.Ratio != nil {
		job.inOrder(a.Steps)
	}
	return a
}
