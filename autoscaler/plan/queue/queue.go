// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"slices"
	"strings"
)

// Any is the name of the queue whose settings apply to each namespace that no other
// queue takes.
const Any = "*"

// WeightUnit is the Weight of a queue of weight 1.
const WeightUnit = 1000

// Order states which waiting jobs of a queue may start before an earlier one.
type Order string

// The orders of a queue. Jobs are ordered by priority, then by arrival.
const (
	OrderPolicy Order = "policy" // the queue's policy chooses
	OrderStrict Order = "strict" // no job starts before the first that waits
	OrderSkip   Order = "skip"   // jobs that do not delay the first that waits may start before it
)

// Bounds of settings, which keep products of weights and slots within 64 bits.
const (
	MostSlots  = 1_000_000
	MostWeight = 1000 * WeightUnit

	LongestTime      = 365 * 24 * 3600 // seconds
	ShortestHalfLife = 3600            // seconds
)

// Queue is a queue as the operator writes it. A limit or cap of 0 means no limit.
type Queue struct {
	Name string
	// Namespaces lists the namespaces whose jobs are in the queue. A name that ends in
	// "*" stands for all names with that prefix. The list may be empty for a queue inside
	// another: then it contains only the jobs that name it.
	Namespaces []string

	Guarantee int // slots
	Limit     int // slots
	Weight    int // thousandths
	MaxJob    int // slots of one job
	MaxJobs   int // jobs that run at a time
	MaxTime   int // seconds that a job runs before the others of its queue go first

	// Stops states that a job that has run for MaxTime is stopped.
	Stops bool

	// ReclaimAfter is the number of seconds for which the queue, or one inside it, must
	// have wanted slots of its share before they are taken back from other queues.
	ReclaimAfter int

	// Order applies to the queue, and to the queues inside it that have no order. If it is
	// empty, the order of the outer queue applies, or OrderPolicy if there is none.
	Order Order

	HalfLife float64 // seconds in which past use comes to count half; 0 forgets it at once
	Budget   *Budget // nil is none

	// PerNamespace, if not nil, makes a queue inside this one for each namespace.
	PerNamespace *Caps
	Queues       []Queue
}

// Caps bounds what each namespace of a queue may use. 0 means no bound.
type Caps struct {
	Limit, MaxJob, MaxJobs int
}

// Tree is a set of queues without problems. It is immutable.
type Tree struct {
	nodes    []Node         // parents first; the first one is the pool
	byName   map[string]int // index of the node
	any      Queue          // of namespaces that no queue takes
	patterns []pattern      // the most specific first

	reservations []Reservation
}

// Node is a queue, the pool above all queues, or a namespace that is a queue of its own.
type Node struct {
	Name     string
	Parent   int   // -1 for the pool
	Children []int // empty for a leaf

	Guarantee, Limit, Weight, MaxJob, MaxJobs, MaxTime, ReclaimAfter int

	Stops bool
	Order Order

	Later int // slots of reservations that have not begun

	HalfLife float64 // as in Queue
	Budget   *Budget
	Past     int // thousandths of slots that count in addition to those that it borrows now
	// Spent is the node, at or above this one, that has spent its budget, or 0 if there is
	// none. Stopped states that the queue therefore gets no slots.
	Spent   int
	Stopped bool

	key          string
	perNamespace *Caps
	own          int // leaf of the jobs of a queue that has others inside, or 0
	depth        int
}

type pattern struct {
	text string
	glob bool
	node int
}

func (p pattern) matches(namespace string) bool {
	if p.glob {
		return strings.HasPrefix(namespace, p.text)
	}
	return namespace == p.text
}

// New returns the tree of the queues, or the problems that they have.
func New(queues []Queue) (*Tree, []Problem) {
	if problems := check(queues); len(problems) > 0 {
		return nil, problems
	}
	t := &Tree{nodes: []Node{{Parent: -1}}, byName: map[string]int{}, any: Queue{Weight: WeightUnit}}
	for i := range queues {
		if q := &queues[i]; q.Name == Any {
			t.any = *q
			continue
		}
		t.add(0, &queues[i])
	}
	slices.SortStableFunc(t.patterns, func(a, b pattern) int {
		switch {
		case a.glob != b.glob:
			if a.glob {
				return 1
			}
			return -1
		case len(a.text) != len(b.text):
			return len(b.text) - len(a.text)
		}
		return t.nodes[b.node].depth - t.nodes[a.node].depth
	})
	return t, nil
}

func (t *Tree) add(parent int, q *Queue) {
	n := len(t.nodes)
	t.nodes = append(t.nodes, Node{
		Name: q.Name, Parent: parent, Guarantee: q.Guarantee, Limit: q.Limit, Weight: q.Weight, MaxJob: q.MaxJob, MaxJobs: q.MaxJobs, MaxTime: q.MaxTime,
		HalfLife: q.HalfLife, Budget: q.Budget, ReclaimAfter: q.ReclaimAfter, Stops: q.Stops, Order: q.Order,
		perNamespace: q.PerNamespace, depth: t.nodes[parent].depth + 1, key: Key(q.Name),
	})
	t.nodes[parent].Children = append(t.nodes[parent].Children, n)
	t.byName[q.Name] = n
	for _, ns := range q.Namespaces {
		text, glob := strings.CutSuffix(ns, "*")
		t.patterns = append(t.patterns, pattern{text, glob, n})
	}
	for i := range q.Queues {
		t.add(n, &q.Queues[i])
	}
}

// Plain reports whether the tree consists only of namespaces, which have no limits, order,
// half-life or budget.
func (t *Tree) Plain() bool {
	q := &t.any
	return len(t.nodes) == 1 && q.Limit == 0 && q.MaxJob == 0 && q.MaxJobs == 0 && q.MaxTime == 0 && q.Order == "" && q.HalfLife == 0 && q.Budget == nil
}

// Assign returns the name of the queue that a namespace's job is in: the queue that the
// job names, if that exists, or else the queue that takes the namespace. It returns "" if
// no queue does: then the namespace itself counts as a queue. The caller has to check
// whether the job may name that queue.
func (t *Tree) Assign(namespace, named string) string {
	if _, ok := t.byName[named]; ok {
		return named
	}
	for _, p := range t.patterns {
		if p.matches(namespace) {
			return t.nodes[p.node].Name
		}
	}
	return ""
}

// Layout is a tree with a leaf for each namespace that counts as a queue. It is made for
// one decision.
type Layout struct {
	Nodes []Node // parents first; the first one is the pool

	byName map[string]int
	tree   *Tree
	spaces map[space]int
	spent  bool // a queue is beyond its budget
}

// space is a namespace that is a queue of its own, inside the node.
type space struct {
	node      int
	namespace string
}

// Layout returns the tree, without a leaf for any namespace yet.
func (t *Tree) Layout() *Layout {
	l := &Layout{Nodes: slices.Clone(t.nodes), byName: t.byName, tree: t, spaces: map[space]int{}}
	for i := range l.Nodes {
		l.Nodes[i].Children = slices.Clone(l.Nodes[i].Children)
	}
	return l
}

// Leaf returns the index of the leaf for the jobs of a namespace. queue is the name that
// Assign returned. A missing leaf is added.
func (l *Layout) Leaf(queue, namespace string) int {
	n, ok := l.byName[queue]
	switch {
	case !ok:
		q := &l.tree.any
		return l.space(0, namespace, Node{
			Name: namespace, Weight: q.Weight, Limit: q.Limit, MaxJob: q.MaxJob, MaxJobs: q.MaxJobs, MaxTime: q.MaxTime,
			ReclaimAfter: q.ReclaimAfter, Stops: q.Stops, Order: q.Order, HalfLife: q.HalfLife,
		})
	case l.Nodes[n].perNamespace != nil:
		c := l.Nodes[n].perNamespace
		return l.space(n, namespace, Node{Name: queue + "/" + namespace, Weight: WeightUnit, Limit: c.Limit, MaxJob: c.MaxJob, MaxJobs: c.MaxJobs, HalfLife: l.Nodes[n].HalfLife})
	case len(l.Nodes[n].Children) == 0:
		return n
	case l.Nodes[n].own == 0:
		l.Nodes[n].own = l.grow(n, Node{Name: queue, Weight: WeightUnit, HalfLife: l.Nodes[n].HalfLife, key: "own/" + queue})
	}
	return l.Nodes[n].own
}

// space returns the leaf of a namespace inside a node, which it adds as n if it is missing.
func (l *Layout) space(node int, namespace string, n Node) int {
	key := space{node, namespace}
	leaf, ok := l.spaces[key]
	if !ok {
		n.key = "namespace/" + namespace + "/" + l.Nodes[node].Name // no slash is in the name of a namespace
		leaf = l.grow(node, n)
		l.spaces[key] = leaf
	}
	return leaf
}

func (l *Layout) grow(parent int, n Node) int {
	n.Parent = parent
	l.Nodes = append(l.Nodes, n)
	l.Nodes[parent].Children = append(l.Nodes[parent].Children, len(l.Nodes)-1)
	return len(l.Nodes) - 1
}

// Queue returns the name of the operator's queue that a node is, or that contains it if
// the node is a namespace. It returns "" for a namespace outside of all queues.
func (l *Layout) Queue(n int) string {
	for n >= len(l.tree.nodes) {
		n = l.Nodes[n].Parent
	}
	return l.Nodes[n].Name
}

// Path calls visit for a node and then for each node above it, up to the pool, until visit
// returns false.
func (l *Layout) Path(n int, visit func(n int) bool) {
	for ; n >= 0 && visit(n); n = l.Nodes[n].Parent {
	}
}

// OrderOf returns the order of a node: its own, or that of the nearest node above it that
// has one.
func (l *Layout) OrderOf(n int) Order {
	out := OrderPolicy
	l.Path(n, func(n int) bool {
		if o := l.Nodes[n].Order; o != "" {
			out = o
		}
		return l.Nodes[n].Order == ""
	})
	return out
}
