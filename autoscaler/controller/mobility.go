// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// horizon is, in seconds, how far ahead the gain of a move is counted: trainings
// report themselves how much they have left.
const horizon = 24 * 3600

// mobilize gives the planner what is known of where workers train fastest, and, for
// the jobs that may be moved, what that gains and costs. The caller holds c.mu.
func (c *Controller) mobilize(v *cluster.View, now time.Time) {
	var costs map[string]float64 // by pool
	rooms := rooms{}
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		tree := v.Topologies[j.Pool]
		pool := c.cfg.Pool(j.Pool)
		if !pool.Aware || tree == nil || len(j.Groups) < 2 || !movable(j, now) {
			continue
		}
		h := c.job(j.Key)
		s := slowness{tree: tree.Tree, groups: j.Groups, at: f.Where, now: live(j)}
		s.own, s.alike = c.history.Sensitivities(h.Job, kindKey(j.Key, f))
		knows := j.Locality != nil && s.knows() // else it goes where others need it to
		if knows {
			rooms.measure(&s, v, j)
			j.Locality.Faster = s.between
		}
		if pool.MaxMigrations == 0 || f.Running == 0 {
			continue
		}
		if costs == nil {
			costs = c.resizeCosts(v, now)
		}
		gap, measured := h.gap()
		if !measured {
			gap = costs[j.Pool]
		}
		j.Mobility = &planner.Mobility{Remaining: min(h.expected(f), horizon), Gap: gap, After: h.MayMove(pool.MaxMigrations, now)}
		if knows {
			j.Mobility.Slowdown = s.by
		}
	}
}

// resizeCosts are the costs of a resize by pool, as policies see them.
func (c *Controller) resizeCosts(v *cluster.View, now time.Time) map[string]float64 {
	costs := map[string]map[string][]float64{} // by pool and namespace
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if costs[j.Pool] == nil {
			costs[j.Pool] = map[string][]float64{}
		}
		if movable(j, now) {
			costs[j.Pool][j.Key.Namespace] = append(costs[j.Pool][j.Key.Namespace], c.job(j.Key).Costs...)
		}
	}
	out := map[string]float64{}
	for pool := range costs {
		out[pool] = resizeCost(costs[pool], c.cfg.Planner.ResizeCost.Seconds())
	}
	return out
}

// gap is the median of the job's own last gaps, in seconds.
func (j *job) gap() (seconds float64, measured bool) {
	var own []float64
	for _, seconds := range history.KnownSeconds(j.Gaps) {
		if seconds <= maxResizeCost {
			own = append(own, seconds)
		}
	}
	if len(own) == 0 {
		return 0, false
	}
	slices.Sort(own)
	return own[len(own)/2], true
}

// left is how many seconds of its work a running job has left at the size that it
// has, ok is false where that is unknown.
func (j *job) left(f *cluster.Facts, curve speedup.Curve) (seconds float64, ok bool) {
	total := j.total(f)
	if f.Running == 0 || !(total > j.Done) || !curve.Measured() {
		return 0, false
	}
	return (total - j.Done) * curve.Time(f.Running), true
}

// expected is how many seconds a running job is expected to train on as it is
// placed, 0 where there is no telling. One whose work is unknown is expected to
// take about as long again as it has trained: of jobs as they are seen in clusters,
// those that have run for long run on for long (Harchol-Balter and Downey,
// SIGMETRICS'96).
func (j *job) expected(f *cluster.Facts) float64 {
	if j.total(f) == 0 {
		return j.RunTime
	}
	seconds, _ := j.left(f, speedup.NewCurve(j.Points()...))
	return seconds
}

// live is how many workers of a job each of its groups has.
func live(j *planner.Job) []int {
	out := make([]int, len(j.Groups))
	for g := range out {
		out[g] = len(j.Groups[g].Live)
	}
	return out
}

// slowness is how much longer steps of a job take where its workers might be.
type slowness struct {
	tree   *topology.Tree
	groups []planner.Group
	at     history.Where
	now    []int   // workers by group
	most   int     // workers in one domain of the innermost level
	rooms  []*room // by group
	inside []int   // scratch of domains: workers by domain, all 0 between calls

	own, alike *migrate.Sensitivity
	ratios     map[ratio]float64 // that were asked for, 0 where they are unknown: a plan asks for the same ones very often
}

// ratio is of steps of a job of one size at two crossings.
type ratio struct {
	size     int
	from, to migrate.Crossing
	hopeful  bool // by migrate.Hopeful, else by migrate.Slowdown
}

// Bounds of what is believed of a slowdown.
const (
	leastSlowdown = 0.05
	mostSlowdown  = 20
)

// knows reports whether anything was measured.
func (s *slowness) knows() bool { return len(s.own.Points) > 0 || len(s.alike.Points) > 0 }

// by is the time of a step with so many workers in each group, as a multiple of
// that now; 1 where it is unknown.
func (s *slowness) by(counts []int) float64 {
	if s.at.Workers == 0 || slices.Equal(counts, s.now) {
		return 1
	}
	return s.worst(sizeOf(counts), []migrate.Crossing{s.at.Crossing}, s.crossings(counts), false)
}

// between is the time of a step with so many workers in each group, as a multiple of
// that with as many elsewhere; 1 where it is unknown. Nothing moves for it, and so
// what was not measured yet is tried.
func (s *slowness) between(counts, elsewhere []int) float64 {
	return s.worst(sizeOf(counts), s.crossings(elsewhere), s.crossings(counts), true)
}

// worst is the greatest known slowdown. Where the workers of a group will be inside
// its domain is up to Nomad: nothing is placed for what it may not get.
func (s *slowness) worst(size int, from, to []migrate.Crossing, hopeful bool) float64 {
	worst := 0.0
	for _, a := range from {
		for _, b := range to {
			worst = max(worst, s.ratio(ratio{size, a, b, hopeful}))
		}
	}
	return cmp.Or(worst, 1)
}

// ratio is a slowdown that can be believed, 0 where none is known.
func (s *slowness) ratio(of ratio) float64 {
	r, asked := s.ratios[of]
	if asked {
		return r
	}
	by := migrate.Slowdown
	if of.hopeful {
		by = migrate.Hopeful
	}
	r, known := by(of.size, of.from, of.to, s.own, s.alike)
	if !known || !(leastSlowdown <= r && r <= mostSlowdown) {
		r = 0
	}
	if s.ratios == nil {
		s.ratios = map[ratio]float64{}
	}
	s.ratios[of] = r
	return r
}

func sizeOf(counts []int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// crossings are those that so many workers in each group may have: the one between
// the groups, or else all that are possible inside them.
func (s *slowness) crossings(counts []int) []migrate.Crossing {
	levels := s.tree.Levels()
	depth := len(levels)
	for g, n := range counts {
		if n > 0 {
			depth = min(depth, len(s.groups[g].Path))
		}
	}
	for l := range depth {
		if n, _ := s.domains(counts, l); n > 1 {
			at := migrate.Crossing{Level: levels[l].Name, Domains: n}
			if depth == len(levels) {
				at.Parts, at.Most = s.domains(counts, depth-1)
			}
			return []migrate.Crossing{at}
		}
	}
	least := (sizeOf(counts) + s.most - 1) / s.most // domains of the innermost level
	var out []migrate.Crossing
	if least <= 1 {
		out = append(out, migrate.Crossing{})
	}
	for l := depth; l < len(levels); l++ {
		few, many := max(2, least), s.widest(counts, l)
		if many < 2 {
			continue
		}
		out = append(out, migrate.Crossing{Level: levels[l].Name, Domains: few})
		if many > few {
			out = append(out, migrate.Crossing{Level: levels[l].Name, Domains: many})
		}
	}
	return out
}

// domains is in how many domains of a level the groups are that have workers, and
// how many of these are in one at most.
func (s *slowness) domains(counts []int, level int) (n, most int) {
	if more := len(s.tree.Domains(level)) - len(s.inside); more > 0 {
		s.inside = append(s.inside, make([]int, more)...)
	}
	for g, k := range counts {
		if k == 0 {
			continue
		}
		in := &s.inside[s.groups[g].Path[level]]
		if *in == 0 {
			n++
		}
		*in += k
		most = max(most, *in)
	}
	for g, k := range counts {
		if k != 0 {
			s.inside[s.groups[g].Path[level]] = 0
		}
	}
	return n, most
}

// room is what the places of a class are in a topology.
type room struct {
	slots   int   // of its largest domain of the innermost level, were it empty
	domains []int // that it is in, by level
}

type rooms map[*planner.Class]*room

// measure notes how close together and how far apart workers of a job may be inside
// its groups.
func (r rooms) measure(s *slowness, v *cluster.View, j *planner.Job) {
	s.most, s.rooms = 1, make([]*room, len(j.Groups))
	for g := range j.Groups {
		class := j.Groups[g].Class
		if r[class] == nil {
			r[class] = roomOf(v, s.tree, class)
		}
		s.rooms[g] = r[class]
		s.most = max(s.most, r[class].slots/max(1, j.Groups[g].Need.Slots))
	}
}

func roomOf(v *cluster.View, tree *topology.Tree, class *planner.Class) *room {
	out := &room{domains: make([]int, len(tree.Levels()))}
	seen := make([]map[int]int, len(tree.Levels())) // slots of domains, by level
	for l := range seen {
		seen[l] = map[int]int{}
	}
	for _, at := range class.Places {
		leaf := tree.Leaf(at.Node, at.Bin)
		if leaf < 0 {
			continue
		}
		for l := range seen {
			d := tree.Domain(l, leaf)
			seen[l][d] += max(0, v.Nodes[at.Node].Bins[at.Bin].Slots)
			if l == len(seen)-1 {
				out.slots = max(out.slots, seen[l][d])
			}
		}
	}
	for l := range seen {
		out.domains[l] = len(seen[l])
	}
	return out
}

// widest is in how many domains of a level workers may be at most.
func (s *slowness) widest(counts []int, level int) (n int) {
	for g, k := range counts {
		n += min(k, s.rooms[g].domains[level])
	}
	return n
}

// silentJoin is how long, at least, workers of a training that does not report its
// ring are given to join it.
const silentJoin = 10 * time.Second

// joined reports whether all workers that a job has now train. The caller holds
// c.mu.
func (c *Controller) joined(j *job, of *planner.Job, f *cluster.Facts, now time.Time) bool {
	switch {
	case of.Alive() != of.Count():
		return false
	case j.Size == 0:
		// A leader of late has not asked the training yet.
		since := j.LastChange
		if c.loadedAt.After(since) {
			since = c.loadedAt
		}
		return now.Sub(since) >= max(silentJoin, 2*c.cfg.Planner.Progress)
	}
	return !j.late() && j.Size == of.Count()*ringSlots(f)
}

// late reports whether what the job's training last reported was of before its last
// change: while it does not answer, the size of its ring stays that of then.
func (j *job) late() bool { return !j.askedAt.After(j.LastChange) }

// moved reports what a move of a job's workers did. The caller holds c.mu.
func (c *Controller) moved(key planner.JobKey, o history.Outcome) {
	e := jobEvent("moved", key)
	var gaps []string
	for _, seconds := range history.KnownSeconds(o.Gaps) {
		gaps = append(gaps, fmt.Sprintf("%.2f", seconds))
	}
	e.Reason = fmt.Sprintf("a step takes %.3g s now", o.After)
	if o.Before > 0 {
		e.Reason = fmt.Sprintf("a step took %.3g s and takes %.3g s now: %+.0f %%, expected %+.0f %%", o.Before, o.After, 100*(o.After/o.Before-1), -100*o.Expected)
	}
	if len(gaps) > 0 {
		e.Reason += fmt.Sprintf("; its ring stood still for %s s", strings.Join(gaps, " and "))
	}
	c.log.Info("moved", "job", key, "reason", e.Reason)
	c.events = append(c.events, e)
}
