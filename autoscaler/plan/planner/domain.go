// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// within returns the end of a wait's reason if a job must not cross a level, else "".
func (job *Job) within() string {
	if job.Locality == nil || job.Locality.Within == 0 {
		return ""
	}
	return " within one " + job.Locality.Level
}

// leave takes n workers of a job from counts, and returns how many it could not take. It
// takes whole domains, except where another choice is known to make steps faster. Of equal
// groups, it takes the first in order or, if order is nil, the first of the job.
func (b *planBuilder) leave(job *Job, counts []int, n int, order []int) (left int) {
	b.sites = b.sites[:0]
	for g := range job.Groups {
		group := &job.Groups[g]
		b.sites = append(b.sites, placement.Site{Path: group.Path, Held: counts[g], Fixed: min(counts[g], group.Min)})
	}
	var leaving []int
	if l := job.Locality; order == nil {
		leaving = placement.ReleaseFaster(b.sites, n, l.Rule, l.Faster)
	} else {
		leaving = restored(placement.ReleaseFaster(permuted(b.sites, order), n, l.Rule, inOrder(l.Faster, order)), order)
	}
	for g, k := range leaving {
		counts[g] -= k
		n -= k
	}
	return n
}

// sites returns the job's groups, with the room for up to n more workers. Workers that wait
// for a place do not count. The result is valid until the next call.
func (c *capacity) sites(j, n int, without func(g int) bool) []placement.Site {
	job := &c.cluster.Jobs[j]
	out := c.buffer[:0]
	for g := range job.Groups {
		group := &job.Groups[g]
		pending := min(group.Count, c.cluster.pending(j, g))
		out = append(out, placement.Site{Path: group.Path, Held: group.Count - pending})
		if without(g) || group.GrowAfter.After(c.now) {
			continue
		}
		limit := math.MaxInt
		if len(group.Path) == 0 {
			limit = n // it is bound to no domain, whose total room would matter
		}
		out[g].Free = c.free(j, g, limit)
		out[g].Room = max(0, min(n, out[g].Free, group.Max-group.Count))
	}
	c.buffer = out
	return out
}

// splitByDomain does what splitOver does, for a job whose workers are to be close together,
// or further apart if that is faster and as many find room.
func (c *capacity) splitByDomain(j, n int, without func(g int) bool) (counts []int, given int) {
	faster := c.cluster.Jobs[j].Locality.Faster
	counts, given = c.splitFaster(j, n, without, faster)
	if given < n && faster != nil {
		if closer, k := c.splitFaster(j, n, without, nil); k > given {
			return closer, k
		}
	}
	return counts, given
}

// splitFaster does what splitByDomain does, with a ratio. Groups may share nodes, so room
// that one takes may be missing for another. It takes room on trial, and chooses again if
// there is less for all groups together than for each alone.
func (c *capacity) splitFaster(j, n int, without func(g int) bool, faster placement.Ratio) (counts []int, given int) {
	sites := c.sites(j, n, without)
	for range sites {
		more := c.growAt(j, sites, n, faster)
		var short bool
		if counts, given, short = c.tryAll(j, more, sites); !short {
			break
		}
	}
	return counts, given
}

// tryAll takes room for more workers of each group on trial, and gives it back. It returns
// the new counts and how many workers found room. If a group got fewer than it was to get,
// short is true and the group's room in sites is reduced to that number.
func (c *capacity) tryAll(j int, more []int, sites []placement.Site) (counts []int, given int, short bool) {
	counts = c.cluster.Jobs[j].counts()
	for _, g := range byMost(more) {
		// Earlier groups have taken room on the nodes and in the pool.
		got, rollback := c.try(j, g, c.free(j, g, more[g]))
		defer rollback()
		counts[g] += got
		given += got
		if got < more[g] {
			sites[g].Room, short = got, true
		}
	}
	return counts, given, short
}

// byMost returns the groups that get workers, those with most first.
func byMost(more []int) []int {
	var order []int
	for g, n := range more {
		if n > 0 {
			order = append(order, g)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(more[b], more[a]) })
	return order
}
