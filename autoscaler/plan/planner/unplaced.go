// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"time"
)

// placed returns how many of the job's workers have a place; of a gang, in whole units.
func (b *planBuilder) placed(j int) int {
	counts, n := b.Jobs[j].counts(), 0
	for g := range counts {
		counts[g] -= b.pending(j, g)
		n += counts[g]
	}
	if b.Jobs[j].Ratio != nil {
		return b.Jobs[j].wholeUnits(counts)
	}
	return n
}

// overdue reports whether Nomad was asked for workers longer than PlacementTimeout ago and
// has not placed them.
func (b *planBuilder) overdue(j int) bool {
	job := &b.Jobs[j]
	if b.placed(j) == job.Count() || job.UnhealthyReason != "" {
		return false
	}
	since := job.PendingSince
	if since.IsZero() {
		since = b.now
	}
	if job.LastChange.After(since) {
		since = job.LastChange
	}
	until := since.Add(b.o.PlacementTimeout)
	if until.After(b.now) {
		b.requeueAt(until)
		return false
	}
	return true
}

// rollbackTo returns the total to go back to if only placed workers have a place.
func (b *planBuilder) rollbackTo(j, placed int) int {
	job := &b.Jobs[j]
	n := job.allowed(placed)
	if n > placed || n == 0 {
		// The minimum is not placed. A job that may stop gives back all its workers.
		// Another keeps its minimum and waits in Nomad's queue.
		if job.mayStop() {
			return 0
		}
		return max(job.floor(), job.allowed(max(placed, job.Min)))
	}
	return n
}

// relocateUnplaced moves workers that found no place to groups of the job that have room.
// If there is no room, it rolls them back.
func (b *planBuilder) relocateUnplaced(j int) {
	job := &b.Jobs[j]
	if job.Ratio != nil { // the place of its workers is their group
		if b.target[j] < job.Count() {
			b.shrink(j, Want{})
		}
		return
	}
	from, loose := job.Count(), 0
	for g := range job.Groups {
		loose += b.relocatable(j, g)
	}
	stay := from - loose
	counts, moved := b.capacity.elsewhere(j, loose)
	back := func(n int) int { return min(from, b.rollbackTo(j, n)) }
	if excess := stay + moved - back(stay+moved); excess > 0 {
		// One of the job's sizes is the limit.
		counts, moved = b.capacity.elsewhere(j, max(0, moved-excess))
	}
	to := back(stay + moved)
	if moved == 0 || to < stay+moved {
		if b.target[j] < from {
			b.shrink(j, Want{})
		}
		return
	}
	// counts holds workers that move twice. Others that the minimum needs keep waiting
	// where they are.
	drop := from + moved - to
	less := make([]int, len(job.Groups))
	for g := range job.Groups {
		less[g] = min(drop, b.relocatable(j, g))
		counts[g] -= less[g]
		drop -= less[g]
	}
	if !job.inside(counts) { // those that keep waiting would be in another domain
		if b.target[j] < from {
			b.shrink(j, Want{})
		}
		return
	}
	for g, n := range less {
		b.capacity.forget(j, g, n)
	}
	for g, n := range counts {
		b.capacity.take(j, g, n-job.Groups[g].Count)
	}
	b.target[j] = to
	a := b.action(j, counts, Move, fmt.Sprintf("%d workers found no place in %s; another group has room for %d", from-b.placed(j), b.o.PlacementTimeout, moved))
	a.Unplaced = b.unplacedGroups(j)
	b.act(j, a)
}

// relocatable returns how many workers of a group wait for a place and can be moved.
func (b *planBuilder) relocatable(j, g int) int {
	group := &b.Jobs[j].Groups[g]
	return max(0, min(b.pending(j, g), group.Count-group.Min))
}

// unplacedGroups returns the groups in which workers wait for a place.
func (b *planBuilder) unplacedGroups(j int) (out []string) {
	for g := range b.Jobs[j].Groups {
		if b.pending(j, g) > 0 {
			out = append(out, b.Jobs[j].Groups[g].Name)
		}
	}
	return out
}

// elsewhere distributes n workers over the groups in which no worker waits for a place. It
// returns the new counts, including workers that wait, and how many of the n found room.
func (c *capacity) elsewhere(j, n int) ([]int, int) {
	waits := func(g int) bool { return c.cluster.pending(j, g) > 0 }
	credit := 0
	for g := range c.cluster.Jobs[j].Groups {
		credit += c.unplaced[groupKey{j, g}] * c.cluster.Jobs[j].Groups[g].Need.Slots
	}
	// The pool has room set aside for workers that Nomad may still place. These move.
	pool := c.cluster.Jobs[j].Pool
	c.pool[pool] += credit
	defer func() { c.pool[pool] -= credit }()
	return c.splitOver(j, n, waits)
}

// forget gives back the pool's room for n workers that had no place and that Nomad is no
// longer asked for.
func (c *capacity) forget(j, g, n int) {
	k := min(n, c.unplaced[groupKey{j, g}])
	c.unplaced[groupKey{j, g}] -= k
	c.pool[c.cluster.Jobs[j].Pool] += k * c.cluster.Jobs[j].Groups[g].Need.Slots
}

// growAfter returns the time before which no group of the job may grow.
func (job *Job) growAfter() time.Time {
	var first time.Time
	for g := range job.Groups {
		if at := job.Groups[g].GrowAfter; g == 0 || at.Before(first) {
			first = at
		}
	}
	return first
}
