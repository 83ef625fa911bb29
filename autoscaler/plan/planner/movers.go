// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"math"
	"slices"
	"strconv"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// moverView describes the placement of jobs to package migrate. It has a pool of slots for
// each domain that a group is bound to and each class of places there.
type moverView struct {
	jobs   []int // by mover
	movers []migrate.Mover
	free   []int   // slots, by pool
	paths  [][]int // by pool

	at      map[domainClass]int // pools
	classes map[string][]*Class // those of pools, by path
}

// overlap reports whether two lists have a place in common.
func overlap(a, b []placement.Place) bool {
	if slices.Equal(a, b) {
		return true
	}
	in := make(map[placement.Place]bool, len(a))
	for _, at := range a {
		in[at] = true
	}
	return slices.ContainsFunc(b, func(at placement.Place) bool { return in[at] })
}

// domainClass identifies the places of a class in a domain.
type domainClass struct {
	path  string
	class *Class
}

// pool returns the pool of a group's slots, or -1 if the group is not bound to a domain.
// Classes that share places have one pool.
func (f *moverView) pool(b *planBuilder, j, g int) int {
	group := &b.Jobs[j].Groups[g]
	if len(group.Path) == 0 {
		return -1
	}
	key := domainClass{pathKey(group.Path), group.Class}
	if i, known := f.at[key]; known {
		return i
	}
	same := slices.IndexFunc(f.classes[key.path], func(class *Class) bool {
		return class != nil && group.Class != nil && overlap(class.Places, group.Class.Places)
	})
	i := len(f.free)
	if same >= 0 {
		i = f.at[domainClass{key.path, f.classes[key.path][same]}]
	} else {
		f.paths, f.free = append(f.paths, group.Path), append(f.free, 0)
	}
	f.at[key], f.classes[key.path] = i, append(f.classes[key.path], group.Class)
	f.free[i] = max(f.free[i], b.capacity.free(j, g, math.MaxInt)*group.Need.Slots)
	return i
}

// moverView returns a view of some of the jobs that may move, and of the domains of a
// waiting gang (-1 for none).
func (b *planBuilder) moverView(movers []int, gang int) *moverView {
	movers = window(movers, moversLimit, b.now)
	f := &moverView{jobs: movers, at: map[domainClass]int{}, classes: map[string][]*Class{}}
	if gang >= 0 {
		for g := range b.Jobs[gang].Groups {
			f.pool(b, gang, g)
		}
	}
	for _, j := range movers {
		job := &b.Jobs[j]
		sites := slices.Clone(b.capacity.sites(j, job.Max, func(int) bool { return false }))
		m := migrate.Mover{Job: migrate.Job{
			Sites: sites, Slots: job.Groups[0].Need.Slots, Min: job.Min, Max: job.Max, Sizes: job.Sizes,
			Remaining: job.Mobility.Remaining, Gap: job.Mobility.Gap, Slowdown: job.Mobility.Slowdown,
		}}
		if job.Locality != nil {
			m.Rule = job.Locality.Rule
		}
		for g := range sites {
			m.Most = append(m.Most, job.Groups[g].Max)
			sites[g].Fixed = min(sites[g].Held, job.Groups[g].Min)
			m.Pools = append(m.Pools, f.pool(b, j, g))
			if !job.mayGoTo(g) || gang < 0 && job.Groups[g].GrowAfter.After(b.now) {
				m.Pools[g], sites[g].Room = -1, 0
			}
		}
		f.movers = append(f.movers, m)
	}
	return f
}

// mayGoTo reports whether workers of the job may come to a group while the other workers
// stay where they are. The job's locality applies halfway through a move, too.
func (job *Job) mayGoTo(g int) bool {
	counts := job.counts()
	counts[g]++
	return job.inside(counts)
}

func pathKey(path []int) string {
	var key []byte
	for _, d := range path {
		key = append(strconv.AppendInt(key, int64(d), 10), '/')
	}
	return string(key)
}
