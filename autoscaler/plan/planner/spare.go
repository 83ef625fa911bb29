// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// HeldSpares returns the number of spares that the job asks Nomad for.
func (job *Job) HeldSpares() int {
	n := 0
	for g := range job.Groups {
		n += job.Groups[g].Spare
	}
	return n
}

// lastRelease returns when the job last changed its count, or gave a spare back.
func (job *Job) lastRelease() time.Time {
	if job.SpareGiven.After(job.LastChange) {
		return job.SpareGiven
	}
	return job.LastChange
}

// lenders returns the jobs that can give spares back at once.
func (b *planBuilder) lenders() (out []int) {
	for j := range b.Jobs {
		if b.Jobs[j].HeldSpares() > 0 && b.free(j) {
			out = append(out, j)
		}
	}
	return out
}

// lentRoom reports whether spares of other jobs hold places that a job may use. It is false for
// a job with spares of its own, which train first.
func (b *planBuilder) lentRoom(j int) bool {
	job := &b.Jobs[j]
	mayUse := func(w Worker) bool {
		return slices.ContainsFunc(job.Groups, func(g Group) bool {
			return g.Class != nil && slices.Contains(g.Class.Places, w.Place)
		})
	}
	return job.HeldSpares() == 0 && slices.ContainsFunc(b.lending, func(other int) bool {
		return slices.ContainsFunc(b.Jobs[other].Groups, func(g Group) bool { return slices.ContainsFunc(g.Spares, mayUse) })
	})
}

// keepsSpares reports whether the job has spares, or is to have some.
func (job *Job) keepsSpares() bool { return job.Spare > 0 || job.HeldSpares() > 0 }

// spares gives spares back that others need, adds spares where no one needs the room, and
// completes the steps of all actions, which do not count spares up to here.
func (b *planBuilder) spares() {
	if !slices.ContainsFunc(b.Jobs, func(job Job) bool { return job.keepsSpares() }) {
		return
	}
	spares := make([][]int, len(b.Jobs)) // by job and group, after this plan
	for j := range b.Jobs {
		for g := range b.Jobs[j].Groups {
			spares[j] = append(spares[j], b.Jobs[j].Groups[g].Spare)
		}
	}
	b.admit(spares)
	given := b.plan.given()
	why := make([]string, len(b.Jobs))
	for j := range b.Jobs {
		job := &b.Jobs[j]
		if to, acts := given[job.Key]; acts && to == 0 || job.Count() == 0 && !acts && b.free(j) {
			why[j] = giveBack(spares[j], job.HeldSpares(), "the job has no workers")
		}
	}
	needs := b.needs()
	lent, last := b.lent()
	for _, j := range b.byRank() {
		job := &b.Jobs[j]
		slots := job.Groups[0].Need.Slots
		surplus, pending := sum(spares[j])-job.Spare, 0
		if over := lent[job.Pool] - b.Lends[job.Pool]; job.Lent && over > 0 {
			surplus = max(surplus, min(sum(spares[j]), (over+slots-1)/slots))
		}
		if since := job.SparesSince; !since.IsZero() {
			if until := since.Add(b.o.PlacementTimeout); until.After(b.now) {
				b.requeueAt(until)
			} else {
				for g := range job.Groups {
					pending += b.pendingSpares(j, g)
				}
			}
		}
		switch need := needs[job.Pool]; {
		case why[j] != "" || sum(spares[j]) == 0 || !b.free(j):
		case need.slots > 0:
			n := min(sum(spares[j]), (need.slots+slots-1)/slots)
			why[j] = giveBack(spares[j], n, "others need its slots")
			need.slots -= n * slots
			needs[job.Pool] = need
		case surplus > 0:
			why[j] = giveBack(spares[j], surplus, "the job is to have fewer")
			if job.Lent {
				lent[job.Pool] -= surplus * slots
			}
		case pending > 0:
			why[j] = giveBack(spares[j], pending, fmt.Sprintf("it found no place in %s", b.o.PlacementTimeout))
		}
	}
	for _, j := range slices.Backward(b.byRank()) {
		if why[j] == "" && needs[b.Jobs[j].Pool] == (need{}) {
			why[j] = b.addSpares(j, spares[j], lent, last)
		}
	}
	b.write(spares, why)
}

// lent returns the slots that each pool lends now, and when it last got any back.
func (b *planBuilder) lent() (slots map[string]int, given map[string]time.Time) {
	slots, given = map[string]int{}, map[string]time.Time{}
	for j := range b.Jobs {
		if job := &b.Jobs[j]; job.Lent {
			slots[job.Pool] += job.HeldSpares() * job.Groups[0].Need.Slots
			if job.SpareGiven.After(given[job.Pool]) {
				given[job.Pool] = job.SpareGiven
			}
		}
	}
	return slots, given
}

// index returns the index of each job.
func (b *planBuilder) index() map[identity.JobKey]int {
	out := make(map[identity.JobKey]int, len(b.Jobs))
	for j := range b.Jobs {
		out[b.Jobs[j].Key] = j
	}
	return out
}

// group returns the index of a group.
func (job *Job) group(name string) int {
	return slices.IndexFunc(job.Groups, func(g Group) bool { return g.Name == name })
}

// giveBack takes n spares from the groups of a job, and returns the reason as a text.
func giveBack(spares []int, n int, why string) string {
	left := n
	for g := len(spares) - 1; g >= 0; g-- {
		k := min(left, spares[g])
		spares[g] -= k
		left -= k
	}
	if left == n {
		return ""
	}
	return fmt.Sprintf("gives back %s: %s", spareText(n-left), why)
}

func sum(list []int) int {
	n := 0
	for _, k := range list {
		n += k
	}
	return n
}

func spareText(n int) string {
	if n == 1 {
		return "a spare"
	}
	return fmt.Sprintf("%d spares", n)
}

// addSpares adds the spares that a job lacks and for which there is room. lent holds the slots
// that pools lend, and given when they last got any back.
func (b *planBuilder) addSpares(j int, spares []int, lent map[string]int, given map[string]time.Time) string {
	job, n := &b.Jobs[j], 0
	slots, missing := job.Groups[0].Need.Slots, job.Spare-job.HeldSpares()
	if job.Lent {
		missing = min(missing, (b.Lends[job.Pool]-lent[job.Pool])/slots)
	}
	if missing <= 0 || !b.free(j) || b.acted[j] || b.moving[j] || b.unplaced[j] || b.repairs[j] || job.Ratio != nil ||
		job.Count() == 0 || job.Alive() != job.Count() || b.placed(j) != job.Count() {
		return ""
	}
	last := job.SpareGiven
	if job.Lent {
		last = given[job.Pool] // or one job after the other would have a spare for a moment
	}
	after := last.Add(b.o.PlacementRetry)
	if hold := job.LastChange.Add(b.o.Hold); hold.After(after) {
		after = hold
	}
	if after.After(b.now) {
		b.requeueAt(after)
		return ""
	}
	counts, room := b.capacity.split(j, missing)
	if room == 0 {
		return ""
	}
	for g := range counts {
		k := counts[g] - job.Groups[g].Count
		b.capacity.take(j, g, k)
		spares[g] += k
		n += k
	}
	if job.Lent {
		lent[job.Pool] += n * slots
	}
	return fmt.Sprintf("adds %s, ready to replace a lost worker", spareText(n))
}

// free reports whether the count of a job may be changed at once, even if it was changed a
// moment ago.
func (b *planBuilder) free(j int) bool {
	job := &b.Jobs[j]
	return job.Frozen == "" && job.HoldReason == "" && job.UnhealthyReason == "" && !job.ManualUntil.After(b.now)
}

// byRank returns the jobs in the order in which they give spares back: low priorities first,
// then later jobs.
func (b *planBuilder) byRank() []int {
	order := make([]int, len(b.Jobs))
	for j := range order {
		order[j] = len(order) - 1 - j
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(b.Jobs[x].Priority, b.Jobs[y].Priority) })
	return order
}

// need is the demand of a pool's jobs after this plan.
type need struct {
	slots  int  // that spares have to give back
	wanted bool // a job wants more workers than it has
}

// needs returns what the jobs of each pool need. Room that will be free soon counts as free.
func (b *planBuilder) needs() map[string]need {
	given := b.plan.given()
	lacking, stuck, coming, pending := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	jobs := b.index()
	for j := range b.Jobs {
		job := &b.Jobs[j]
		if to, acts := given[job.Key]; acts && to < job.Count() {
			coming[job.Pool] += job.slots(job.Count() - to)
		}
		until := job.lastRelease().Add(b.o.PlacementTimeout)
		for g := range job.Groups {
			slots := job.Groups[g].Need.Slots
			if n := b.leaving(j, g); n > 0 && until.After(b.now) { // a process that does not end must not be waited for
				coming[job.Pool] += n * slots
				b.requeueAt(until)
			}
			pending[job.Pool] += b.pendingSpares(j, g) * slots // they have taken room, but need none
			stuck[job.Pool] += b.capacity.unplaced[groupKey{j, g}] * slots
		}
	}
	for i := range b.plan.Waits {
		w := &b.plan.Waits[i]
		job := &b.Jobs[jobs[w.Job]]
		has := job.Count()
		if to, acts := given[w.Job]; acts {
			has = to
		}
		if w.Want > has && b.free(jobs[w.Job]) {
			lacking[job.Pool] += job.slots(w.Want - has)
			stuck[job.Pool] += job.slots(w.Shortfall)
		}
	}
	out := map[string]need{}
	for p := range b.capacity.pool {
		// Room that is free may be of no use: its nodes are too small, or do not fit.
		others := b.Reserved[p] + b.Waiting[p]
		slots := max(lacking[p]-b.capacity.pool[p]-pending[p], stuck[p], others) - coming[p]
		if n := (need{slots: max(0, slots), wanted: lacking[p]+stuck[p]+others+coming[p] > 0}); n != (need{}) {
			out[p] = n
		}
	}
	return out
}

// leaving returns how many workers of a group are ending, or are beyond its count, on nodes
// whose room others can use then.
func (b *planBuilder) leaving(j, g int) int {
	group := &b.Jobs[j].Groups[g]
	ending, stay := 0, 0
	for _, w := range group.Live {
		switch {
		case w.Node < 0 || b.Nodes[w.Node].State == Draining:
		case w.Ending:
			ending++
		default:
			stay++
		}
	}
	return ending + max(0, stay-group.Count)
}
