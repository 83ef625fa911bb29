// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// Bounds on the jobs that one plan looks at: the jobs of a pool that may move, and the
// gangs.
const (
	moversLimit = 128
	gangsLimit  = 8
)

// window returns at most limit of the jobs. The selection changes every minute, so that
// every job has its turn.
func window(jobs []int, limit int, now time.Time) []int {
	n := len(jobs)
	if n <= limit {
		return jobs
	}
	from := (int(now.Unix()/60*int64(limit))%n + n) % n
	return slices.Concat(jobs[from:], jobs[:from])[:limit]
}

// migrate begins moves in pools where no other move is under way and no job waits for room
// that is coming. It begins the moves that let a gang start or, if there are none, those
// that make steps faster.
func (b *planBuilder) migrate() {
	busy := b.coming
	movers := map[string][]int{}
	for j := range b.Jobs {
		job := &b.Jobs[j]
		switch {
		case b.underway(j):
			busy[job.Pool] = true
		case !b.acted[j] && b.settled(j):
			movers[job.Pool] = append(movers[job.Pool], j)
		}
	}
	for _, j := range window(b.gangs, gangsLimit, b.now) {
		if pool := b.Jobs[j].Pool; !busy[pool] && b.makeRoom(j, movers[pool]) {
			busy[pool] = true
		}
	}
	var together [][]int
	for _, pool := range slices.Sorted(maps.Keys(movers)) {
		if busy[pool] {
			continue
		}
		// Trainings report their step times themselves. So the reports of one namespace
		// must not move the workers of another.
		mine := b.byNamespace(movers[pool])
		for _, namespace := range slices.Sorted(maps.Keys(mine)) {
			if slices.ContainsFunc(mine[namespace], b.mayGain) {
				together = append(together, mine[namespace])
			}
		}
	}
	// A namespace leaves the rest of its budget to the next ones.
	for left := b.o.Migrate.Budget; len(together) > 0; together = together[1:] {
		left -= b.rearrange(together[0], left/len(together))
	}
}

func (b *planBuilder) byNamespace(jobs []int) map[string][]int {
	out := map[string][]int{}
	for _, j := range jobs {
		n := b.Jobs[j].Key.Namespace
		out[n] = append(out[n], j)
	}
	return out
}

// settled reports whether a job's workers may move now.
func (b *planBuilder) settled(j int) bool {
	job := &b.Jobs[j]
	count := job.Count()
	switch {
	case job.Mobility == nil || count == 0 || len(job.Groups) < 2 || b.target[j] < count:
		return false
	case job.Frozen != "" || job.HoldReason != "" || job.UnhealthyReason != "" || job.ManualUntil.After(b.now):
		return false
	case job.Alive() != count || b.placed(j) != count:
		return false
	}
	for _, at := range []time.Time{job.LastChange.Add(b.o.Hold), job.Mobility.After} {
		if at.After(b.now) {
			b.requeueAt(at)
			return false
		}
	}
	return true
}

// makeRoom begins moves after which a waiting gang can start in one domain of the level
// that it must not cross.
func (b *planBuilder) makeRoom(j int, movers []int) bool {
	job := &b.Jobs[j]
	if job.Locality == nil || job.Locality.Within == 0 || len(movers) == 0 {
		return false // it would start on any free slots
	}
	size := job.smallest()
	targets := b.targets(j, size)
	f := b.moverView(slices.DeleteFunc(slices.Clone(movers), func(k int) bool {
		return !slices.ContainsFunc(targets, func(t target) bool { return t.holds(&b.Jobs[k]) })
	}), j)
	b.fixUnusable(f, j, targets)
	gang := migrate.Gang{Workers: size, Slots: job.Groups[0].Need.Slots, Wait: b.nextEnd(f)}
	for range clearTries {
		var free []migrate.Target
		for _, t := range targets {
			free = append(free, migrate.Target{Missing: t.missing, Pools: t.pools(f)})
		}
		c, ok := migrate.Clear(gang, free, f.movers, f.free, b.o.Migrate)
		if !ok {
			return false
		}
		t := targets[c.Target]
		if b.possible(f, c.Moves, j, size, &t) {
			return b.begin(f, c.Moves, true, func(int, migrate.Move) string {
				return fmt.Sprintf("makes room for %s within one %s (%s)", job.Key, job.Locality.Level, t.group)
			})
		}
		// CPU or memory is missing, too: freeing more slots also frees more of these.
		if targets[c.Target].missing += gang.Slots; t.missing >= size*gang.Slots {
			targets = slices.Delete(targets, c.Target, c.Target+1)
		}
	}
	return false
}

// clearTries is how often to look for moves after which a gang could start.
const clearTries = 16

// fixUnusable marks the workers whose slots a gang may not use as fixed: moving them would
// not make room for it.
func (b *planBuilder) fixUnusable(f *moverView, gang int, targets []target) {
	may := map[placement.Place]bool{}
	for g := range b.Jobs[gang].Groups {
		group := &b.Jobs[gang].Groups[g]
		if group.Class != nil && insideAny(targets, group.Path) {
			for _, at := range group.Class.Places {
				may[at] = true
			}
		}
	}
	for k, j := range f.jobs {
		for g := range b.Jobs[j].Groups {
			path := b.Jobs[j].Groups[g].Path
			if insideAny(targets, path) &&
				slices.ContainsFunc(b.Jobs[j].Groups[g].Live, func(w Worker) bool { return !may[w.Place] }) {
				f.movers[k].Sites[g].Fixed = f.movers[k].Sites[g].Held
			}
		}
	}
}

// target is a domain in which a gang could start.
type target struct {
	path    []int
	group   string // the gang's group there
	missing int    // slots
}

// inside reports whether a path is in the domain.
func (t *target) inside(path []int) bool {
	return len(path) >= len(t.path) && slices.Equal(path[:len(t.path)], t.path)
}

// insideAny reports whether a path is in one of the domains.
func insideAny(targets []target, path []int) bool {
	return slices.ContainsFunc(targets, func(t target) bool { return t.inside(path) })
}

// holds reports whether a job has workers in the domain.
func (t *target) holds(job *Job) bool {
	return slices.ContainsFunc(job.Groups, func(g Group) bool { return g.Count > 0 && t.inside(g.Path) })
}

// pools returns the pools of a view that are in the domain.
func (t *target) pools(f *moverView) (out []int) {
	for pool, path := range f.paths {
		if t.inside(path) {
			out = append(out, pool)
		}
	}
	return out
}

// targetsLimit bounds how many domains are tried to make room in. The domains that lack the
// fewest slots are tried.
const targetsLimit = 4

// targets returns the domains in which a gang of a size could start if room were made.
func (b *planBuilder) targets(j, size int) (out []target) {
	job := &b.Jobs[j]
	within := job.Locality.Within
	for g := range job.Groups {
		path := job.Groups[g].Path
		if len(path) < within || insideAny(out, path) {
			continue
		}
		t := target{path: path[:within], group: job.Groups[g].Name}
		_, fit := b.capacity.splitOver(j, size, func(g int) bool { return !t.inside(job.Groups[g].Path) })
		t.missing = (size - fit) * job.Groups[g].Need.Slots
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b target) int { return cmp.Compare(a.missing, b.missing) })
	return out[:min(len(out), targetsLimit)]
}

// nextEnd returns the number of seconds until a job is expected to end, and frees room.
// It is the lower median of the first ends of all namespaces. A single namespace can't
// decide it, because trainings report their remaining time themselves.
func (b *planBuilder) nextEnd(f *moverView) float64 {
	first := map[string]float64{}
	for _, j := range f.jobs {
		left, namespace := b.Jobs[j].Mobility.Remaining, b.Jobs[j].Key.Namespace
		if before, known := first[namespace]; left > 0 && (!known || left < before) {
			first[namespace] = left
		}
	}
	if len(first) == 0 {
		return 0
	}
	return slices.Sorted(maps.Values(first))[(len(first)-1)/2]
}

// mayGain reports whether steps of a job may be faster elsewhere.
func (b *planBuilder) mayGain(j int) bool {
	return b.Jobs[j].Mobility.Slowdown != nil && b.Jobs[j].Count() > 1
}

// rearrange begins the moves by which jobs gain most together. If they can't all be made,
// it begins those whose own gain justifies their cost. It returns how much of the budget
// it spent.
func (b *planBuilder) rearrange(movers []int, budget int) (spent int) {
	o := b.o.Migrate
	o.Budget, o.Offset = budget, int(b.now.Unix()/60)
	f := b.moverView(movers, -1)
	moves, spent := migrate.Rearrange(f.movers, f.free, o)
	reason := func(k int, m migrate.Move) string {
		where := "closer together"
		switch {
		case m.Slowdown >= 1:
			return "makes room for another's workers"
		case groupsOf(m.Counts) > groupsOf(b.Jobs[f.jobs[k]].counts()):
			where = "further apart"
		}
		return fmt.Sprintf("%s: steps take %.0f %% less time", where, 100*(1-m.Slowdown))
	}
	if len(moves) == 0 || b.begin(f, moves, false, reason) {
		return spent
	}
	for _, k := range slices.Sorted(maps.Keys(moves)) {
		if m := moves[k]; m.Gain > (1+b.o.Migrate.Hysteresis)*m.Cost {
			b.begin(f, map[int]migrate.Move{k: m}, false, reason)
		}
	}
	return spent
}

// groupsOf returns in how many groups a job has workers.
func groupsOf(counts []int) (n int) {
	for _, k := range counts {
		n += min(1, k)
	}
	return n
}

// begin plans the first half of each move, or none if they cannot all be made. A job grows
// into room that is free now. If others have to leave the room first, the job shrinks first
// or, if it may not, waits for them. With atOnce, there must be room for all moves now, and
// each job that may shrink first does so, because a gang waits for its slots.
func (b *planBuilder) begin(f *moverView, moves map[int]migrate.Move, atOnce bool, reason func(k int, m migrate.Move) string) bool {
	type half struct {
		j      int
		moving *Moving
		reason string
	}
	if b.o.MaxWrites > 0 && len(b.plan.Actions)+len(moves) > b.o.MaxWrites {
		if len(moves) <= b.o.MaxWrites {
			b.requeueAt(b.now.Add(time.Millisecond))
		}
		return false // some of them alone would wait for the others
	}
	if len(moves) > 1 && !atOnce && !b.possible(f, moves, -1, 0, nil) {
		return false
	}
	var halves []half
	var rollbacks []func()
	undo := func() {
		for _, r := range slices.Backward(rollbacks) {
			r()
		}
	}
	for _, k := range slices.Sorted(maps.Keys(moves)) {
		m, j := moves[k], f.jobs[k]
		job := &b.Jobs[j]
		if !job.mayHave(m.Counts) {
			undo()
			return false
		}
		moving := &Moving{From: job.counts(), To: m.Counts, GrowFirst: m.GrowFirst, Until: b.now.Add(b.o.MoveTimeout), Gain: 1 - m.Slowdown}
		room := true
		for g, n := range m.Counts {
			more := n - job.Groups[g].Count
			placed, rollback := b.capacity.try(j, g, more)
			rollbacks = append(rollbacks, rollback)
			room = room && placed >= more
		}
		n := job.Count() - m.Workers
		shrinks := n >= max(1, job.Min) && job.Sizes.Fit(n, job.Min, job.Max) == n
		switch {
		case room:
			moving.GrowFirst = m.GrowFirst && (!atOnce || !shrinks)
		case shrinks && len(moves) > 1 && !atOnce:
			moving.GrowFirst = false
		case m.GrowFirst && len(moves) > 1 && !atOnce:
			moving.Queued = true
		default:
			undo()
			return false
		}
		halves = append(halves, half{j, moving, reason(k, m)})
	}
	for _, h := range halves {
		job := &b.Jobs[h.j]
		counts := h.moving.halfway()
		if h.moving.Queued {
			counts = h.moving.From
		}
		a := b.action(h.j, counts, Migrate, job.route(h.moving.From, h.moving.To)+": "+h.reason)
		a.Moving = h.moving
		b.act(h.j, a)
	}
	return true
}
