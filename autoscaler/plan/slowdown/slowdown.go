// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package slowdown estimates how much longer the steps of a job take in another placement,
// from measurements of the job and of others of its kind.
//
// The autoscaler sets only how many workers each group has. Nomad then places them anywhere
// in the domain that the group is bound to, so the same counts may lead to different
// crossings. The estimate assumes the worst known one of these. Otherwise workers might
// move for a placement that Nomad then does not choose.
package slowdown

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// Model estimates how much longer the steps of one job take in another placement.
type Model struct {
	own, alike *migrate.Sensitivity // of the job, and of others of its kind

	tree   *topology.Tree
	groups []planner.Group
	at     *migrate.Crossing // nil if unknown
	now    []int             // workers by group
	most   int               // workers in one domain of the innermost level
	rooms  []*room           // by group
	inside []int             // scratch of domains: workers by domain, all 0 between calls
	ratios map[ratio]float64 // cached, 0 if unknown: a plan asks for the same ones very often
}

// New returns the model of a job on the nodes of a tree. The parameter at is the current
// crossing of the job's workers, nil if unknown. The measurements of the job are in own,
// and the measurements of its kind in alike. Jobs that are planned together share rooms.
func New(j *planner.Job, tree *topology.Tree, at *migrate.Crossing, own, alike *migrate.Sensitivity, rooms Rooms) *Model {
	m := &Model{own: own, alike: alike, tree: tree, groups: j.Groups, at: at, now: make([]int, len(j.Groups)), most: 1, rooms: make([]*room, len(j.Groups))}
	for g := range j.Groups {
		m.now[g] = len(j.Groups[g].Live)
		m.rooms[g] = rooms.of(tree, j.Groups[g].Class)
		m.most = max(m.most, m.rooms[g].slots/max(1, j.Groups[g].Need.Slots))
	}
	return m
}

// ratio identifies a ratio of step times: of jobs of one size, at two crossings.
type ratio struct {
	size     int
	from, to migrate.Crossing
	hopeful  bool // by migrate.Hopeful, else by migrate.Slowdown
}

// Bounds of a plausible slowdown.
const (
	least = 0.05
	most  = 20
)

// Believed reports whether a slowdown is plausible for a training.
func Believed(ratio float64) bool { return least <= ratio && ratio <= most }

// FromNow returns the time of a step with the given workers in each group, as a multiple of
// the current step time; 1 if it is unknown.
func (m *Model) FromNow(counts []int) float64 {
	if m.at == nil || slices.Equal(counts, m.now) {
		return 1
	}
	return m.worst(sizeOf(counts), []migrate.Crossing{*m.at}, m.crossings(counts), false)
}

// Between compares two placements, each given as the number of workers in each group. It
// returns the time of a step with counts, as a multiple of the time with elsewhere, or 1 if
// that is unknown. It is for placing new workers, so it favours placements that were not
// measured yet. For moves of running workers, use FromNow.
func (m *Model) Between(counts, elsewhere []int) float64 {
	return m.worst(sizeOf(counts), m.crossings(elsewhere), m.crossings(counts), true)
}

// worst returns the greatest known slowdown, 1 if none is known.
func (m *Model) worst(size int, from, to []migrate.Crossing, hopeful bool) float64 {
	worst := 0.0
	for _, a := range from {
		for _, b := range to {
			worst = max(worst, m.ratio(ratio{size, a, b, hopeful}))
		}
	}
	return cmp.Or(worst, 1)
}

// ratio returns a plausible slowdown, or 0 if none is known.
func (m *Model) ratio(of ratio) float64 {
	r, asked := m.ratios[of]
	if asked {
		return r
	}
	by := migrate.Slowdown
	if of.hopeful {
		by = migrate.Hopeful
	}
	r, known := by(of.size, of.from, of.to, m.own, m.alike)
	if !known || !Believed(r) {
		r = 0
	}
	if m.ratios == nil {
		m.ratios = map[ratio]float64{}
	}
	m.ratios[of] = r
	return r
}

func sizeOf(counts []int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// crossings returns the crossings that the given workers in each group may have: the one
// between the groups or, if there is none, all that are possible inside them.
func (m *Model) crossings(counts []int) []migrate.Crossing {
	levels := m.tree.Levels()
	depth := len(levels)
	for g, n := range counts {
		if n > 0 {
			depth = min(depth, len(m.groups[g].Path))
		}
	}
	for l := range depth {
		if n, _ := m.domains(counts, l); n > 1 {
			at := migrate.Crossing{Level: levels[l].Name, Domains: n}
			if depth == len(levels) {
				at.Parts, at.Most = m.domains(counts, depth-1)
			}
			return []migrate.Crossing{at}
		}
	}
	fewest := (sizeOf(counts) + m.most - 1) / m.most // domains of the innermost level
	var out []migrate.Crossing
	if fewest <= 1 {
		out = append(out, migrate.Crossing{})
	}
	for l := depth; l < len(levels); l++ {
		few, many := max(2, fewest), m.widest(counts, l)
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

// domains returns in how many domains of a level the groups with workers are, and the
// largest number of workers in one of them.
func (m *Model) domains(counts []int, level int) (n, most int) {
	if more := len(m.tree.Domains(level)) - len(m.inside); more > 0 {
		m.inside = append(m.inside, make([]int, more)...)
	}
	for g, k := range counts {
		if k == 0 {
			continue
		}
		in := &m.inside[m.groups[g].Path[level]]
		if *in == 0 {
			n++
		}
		*in += k
		most = max(most, *in)
	}
	for g, k := range counts {
		if k != 0 {
			m.inside[m.groups[g].Path[level]] = 0
		}
	}
	return n, most
}

// room describes the places of a class in a topology.
type room struct {
	slots   int   // all slots, free or not, of its largest domain of the innermost level
	domains []int // number of domains that it is in, by level
}

// Rooms is a cache that the models of one plan share. For each class of groups, it holds
// the number of domains at each level in which workers of the class can be, and the slots
// of the largest innermost domain.
type Rooms struct {
	nodes []planner.Node
	known map[*planner.Class]*room
}

// NewRooms returns the cache for the given nodes. An entry is computed when a job first
// needs it.
func NewRooms(nodes []planner.Node) Rooms { return Rooms{nodes, map[*planner.Class]*room{}} }

func (r Rooms) of(tree *topology.Tree, class *planner.Class) *room {
	if r.known[class] == nil {
		r.known[class] = measure(r.nodes, tree, class)
	}
	return r.known[class]
}

// measure returns the room of a class.
func measure(nodes []planner.Node, tree *topology.Tree, class *planner.Class) *room {
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
			seen[l][d] += max(0, nodes[at.Node].Bins[at.Bin].Slots)
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

// widest returns the largest number of domains of a level that workers may be in.
func (m *Model) widest(counts []int, level int) (n int) {
	for g, k := range counts {
		n += min(k, m.rooms[g].domains[level])
	}
	return n
}
