// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// aware reports whether step times decide where workers are placed.
func (e *engine) aware() bool { return e.cfg.Placement == Aware || e.cfg.Placement == Migrate }

// sites returns the nodes of a job's type, in the form of package placement.
func (e *engine) sites(j *job, per int) []placement.Site {
	places := e.cluster.pools[j.typ].places
	out := make([]placement.Site, len(places))
	for i, at := range places {
		out[i] = placement.Site{Path: e.paths[at.Node], Room: e.cluster.free.Free(at) / per}
		if e.cluster.nodes[at.Node].up {
			continue
		}
		out[i].Room = 0
	}
	for _, s := range j.shares {
		out[slices.Index(places, s.Place)].Held = s.Workers
	}
	return out
}

// byStepTime places more workers of a job, as far as they find room: close together, or
// further apart if steps are known to be faster then. It returns how many it placed.
func (e *engine) byStepTime(j *job, per, more int) (added int) {
	counts, added := placement.GrowFaster(e.sites(j, per), more, placement.Rule{}, e.faster(j))
	for i, n := range counts {
		if n > 0 {
			at := e.cluster.pools[j.typ].places[i]
			j.add(at, n)
			e.cluster.take(at.Node, n*per)
		}
	}
	return added
}

// leave removes a number of workers so that the others are as close together as
// possible, or further apart if steps are known to be faster then.
func (e *engine) leave(j *job, per, fewer int) {
	places := e.cluster.pools[j.typ].places
	for i, n := range placement.ReleaseFaster(e.sites(j, per), fewer, placement.Rule{}, e.faster(j)) {
		if n == 0 {
			continue
		}
		k := slices.IndexFunc(j.shares, func(s placement.Share) bool { return s.Place == places[i] })
		j.shares[k].Workers -= n
		e.cluster.take(places[i].Node, -n*per)
	}
	j.shares = slices.DeleteFunc(j.shares, func(s placement.Share) bool { return s.Workers == 0 })
}

// faster returns the function that compares two placements of a job.
func (e *engine) faster(j *job) placement.Ratio {
	return func(counts, elsewhere []int) float64 {
		return e.ratio(j, e.at(j, elsewhere), e.at(j, counts), migrate.Hopeful)
	}
}

// expectation is migrate.Slowdown or migrate.Hopeful.
type expectation func(size int, from, to migrate.Crossing, of ...*migrate.Sensitivity) (ratio float64, known bool)

// ratio returns the expected time of a step with the workers of a job at to, as a multiple
// of the time with them at from; 1 if that is unknown.
func (e *engine) ratio(j *job, from, to []placement.Share, by expectation) float64 {
	if e.cfg.Info.Curves {
		return e.stepAt(j, to) / e.stepAt(j, from)
	}
	n := 0
	for _, p := range to {
		n += p.Workers
	}
	of := []*migrate.Sensitivity{&j.sensitive}
	if j.alike != nil {
		of = append(of, j.alike)
	}
	r, known := by(n, e.crossing(from), e.crossing(to), of...)
	if !known {
		return 1
	}
	return r
}

// stepAt returns the true time of a step with the workers of a job at these shares.
func (e *engine) stepAt(j *job, at []placement.Share) float64 {
	e.parts = e.parts[:0]
	for _, p := range at {
		e.parts = append(e.parts, p.Workers)
	}
	return j.timeOn(e.parts) * e.apart(j, at)
}

// apart returns the factor by which a step takes longer because of where the workers are,
// in addition to the effect that the trace contains.
func (e *engine) apart(j *job, at []placement.Share) float64 {
	by := 1.0
	n := 0
	for _, p := range at {
		n += p.Workers
	}
	if len(at) > 1 && len(at) > e.cluster.fewest(j.typ, max(1, j.PerWorker), n) {
		by *= 1 + e.cfg.Scatter
	}
	if e.cfg.CrossRack > 0 && e.racks(at) > 1 {
		by *= 1 + e.cfg.CrossRack
	}
	return by
}

func (e *engine) racks(at []placement.Share) int {
	seen := map[string]bool{}
	for _, p := range at {
		seen[e.cluster.nodes[p.Node].Rack] = true
	}
	return len(seen)
}

// crossing returns how far apart workers are.
func (e *engine) crossing(at []placement.Share) migrate.Crossing {
	e.leaves = e.leaves[:0]
	most := 0
	for _, p := range at {
		most = max(most, p.Workers)
		e.leaves = append(e.leaves, topology.Part{Leaf: e.tree.Leaf(p.Node, 0), Workers: p.Workers})
	}
	s := e.tree.Spread(e.leaves)
	if s.Domains < 2 {
		return migrate.Crossing{}
	}
	return migrate.Crossing{Level: e.tree.Levels()[s.Level].Name, Domains: s.Domains, Parts: len(at), Most: most}
}

// learn records the time of a step at the current place of a job.
func (j *job) learn(step float64) {
	p := migrate.Point{Size: j.n, Crossing: j.crossing, StepTime: step}
	if j.alike != nil {
		j.alike.Tries += j.sensitive.Try(p, j.alike)
	}
	j.sensitive.Learn(p)
	if j.alike != nil {
		j.alike.Share(&j.sensitive)
	}
}

// migrate moves workers of running jobs if that saves more than it costs.
func (e *engine) migrate() {
	for typ := range e.cluster.pools {
		pool := &e.cluster.pools[typ]
		free := make([]int, len(pool.places))
		pools := make([]int, len(pool.places))
		for i, at := range pool.places {
			free[i], pools[i] = e.cluster.free.Free(at), i
		}
		var who []*job
		var movers []migrate.Mover
		for _, j := range e.active {
			if j.n > 0 && j.typ == typ && e.movable(j) {
				who = append(who, j)
				movers = append(movers, migrate.Mover{Job: *e.candidate(j), Pools: pools})
			}
		}
		moves, _ := migrate.Rearrange(movers, free, migrate.DefaultOptions())
		e.move(who, moves)
	}
}

// movable reports whether workers of a job may be moved now.
func (e *engine) movable(j *job) bool {
	return e.now >= j.gapEnd && e.now >= j.changed+e.cfg.Hold && !e.tooOften(j)
}

// candidate returns a job as package migrate sees it.
func (e *engine) candidate(j *job) *migrate.Job {
	per := max(1, j.PerWorker)
	return &migrate.Job{
		Sites: e.sites(j, per), Slots: per, Min: j.Min, Max: j.Max, Sizes: j.Sizes,
		Remaining: e.expected(j), Gap: e.cfg.Resize.Gap(j.n),
		Slowdown: func(counts []int) float64 {
			return e.ratio(j, j.shares, e.at(j, counts), migrate.Slowdown)
		},
	}
}

// at returns the shares of a job with these counts at the places of its type.
func (e *engine) at(j *job, counts []int) []placement.Share {
	var out []placement.Share
	for i, n := range counts {
		if n > 0 {
			out = append(out, placement.Share{Place: e.cluster.pools[j.typ].places[i], Workers: n})
		}
	}
	return out
}

// move moves workers of jobs. Each job makes no steps during two changes of its ring.
func (e *engine) move(who []*job, moves map[int]migrate.Move) {
	for i, j := range who {
		if _, ok := moves[i]; ok {
			e.advance(j)
			for _, s := range j.shares {
				e.cluster.take(s.Node, -s.Workers*max(1, j.PerWorker))
			}
		}
	}
	for i, j := range who {
		m, ok := moves[i]
		if !ok {
			continue
		}
		j.shares = e.at(j, m.Counts)
		for _, s := range j.shares {
			e.cluster.take(s.Node, s.Workers*max(1, j.PerWorker))
		}
		e.moved(j, 2*e.cfg.Resize.Gap(j.n))
	}
}

// expected returns how many more seconds a job is expected to run where it is: the time
// for its remaining work if that is known, else as long again as it has run. In clusters,
// jobs that have run for long tend to run on for long (Harchol-Balter and Downey,
// SIGMETRICS'96).
func (e *engine) expected(j *job) float64 {
	if e.cfg.Info.Remaining {
		return (j.left - max(0, e.now-max(j.at, j.gapEnd))/j.step) * j.step
	}
	run := j.result.RunTime + e.now - j.at
	return max(run, soon)
}

// soon is the shortest time, in seconds, for which a job is expected to
// continue.
const soon = 60

// tooOften reports whether a job was moved MaxMoves times within the last hour.
func (e *engine) tooOften(j *job) bool {
	j.moves = slices.DeleteFunc(j.moves, func(t float64) bool { return t <= e.now-3600 })
	return e.cfg.MaxMoves > 0 && len(j.moves) >= e.cfg.MaxMoves
}

// moved updates a job whose workers have moved.
func (e *engine) moved(j *job, cost float64) {
	j.committed = j.left
	j.changed = e.now
	j.place(e)
	j.gapEnd = max(j.gapEnd, e.now) + cost
	if cost > 0 {
		j.moves = append(j.moves, e.now)
		j.result.Moves++
	}
	e.schedule(j)
}

// place updates what depends on where the workers of a job are.
func (j *job) place(e *engine) {
	j.step = e.stepTime(j)
	if e.aware() {
		j.crossing = e.crossing(j.shares)
	}
}

// treeOf returns the topology of nodes, by racks if any node has one.
func treeOf(c *cluster) (*topology.Tree, error) {
	names := []string{topology.NodeLevel}
	if slices.ContainsFunc(c.nodes, func(n node) bool { return n.Rack != "" }) {
		names = []string{"meta.rack", topology.NodeLevel}
	}
	levels, err := topology.ParseLevels(names)
	if err != nil {
		return nil, err
	}
	nodes := make([]topology.Node, len(c.nodes))
	for i, n := range c.nodes {
		nodes[i].Values = []string{n.ID}
		if len(names) > 1 {
			nodes[i].Values = []string{n.Rack, n.ID}
		}
	}
	return topology.New(levels, nodes), nil
}

// pathsOf returns the domains of each node, outermost first.
func pathsOf(t *topology.Tree, nodes int) [][]int {
	out := make([][]int, nodes)
	for i := range out {
		for l := range t.Levels() {
			out[i] = append(out[i], t.Domain(l, t.Leaf(i, 0)))
		}
	}
	return out
}
