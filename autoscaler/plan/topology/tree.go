// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"cmp"
	"slices"
	"strings"
)

// Node describes a node by its value at each level, "" for none. The value of the level
// node is its name.
type Node struct {
	Values []string // of the levels up to node, including the name
	Bins   []Bin    // may be empty
	// Outside marks a node of another pool. It has a number, so that one numbering fits
	// all pools, but no leaf.
	Outside bool
}

// Bin is a bin of a node.
type Bin struct {
	Value string // of the device level, or ""
	Link  Link   // the slowest between its slots; 0 is Unknown
}

// Domain is one value of a level.
type Domain struct {
	Name    string // the value; "" where Missing
	Parent  int    // a domain of the level outside, -1 at the outermost
	Missing bool   // the domain of nodes or devices without a value
	Nodes   int    // nodes in it

	from, to int // leaves, as positions
}

// Tree holds the domains of a pool. It is immutable.
type Tree struct {
	levels   []Level
	domains  [][]Domain // by level, each level in the order of the tree
	at       [][]int32  // by level: the domain of a leaf
	first    []int      // by node: its first leaf; one more at the end
	links    []Link     // by leaf
	order    []int      // leaves in the order of the tree
	position []int      // of a leaf in order
	problems []Problem
}

// New returns the tree of nodes. levels is from ParseLevels. The order of the nodes
// determines only their numbers and the numbers of their leaves.
func New(levels []Level, nodes []Node) *Tree {
	t := &Tree{levels: levels, domains: make([][]Domain, len(levels)), at: make([][]int32, len(levels)), first: make([]int, 1, len(nodes)+1)}
	for i := range nodes {
		leaves := max(1, len(nodes[i].Bins))
		if nodes[i].Outside {
			leaves = 0
		}
		for b := range leaves {
			link := Unknown
			if b < len(nodes[i].Bins) && nodes[i].Bins[b].Link != 0 {
				link = nodes[i].Bins[b].Link
			}
			t.links = append(t.links, link)
		}
		t.first = append(t.first, t.first[i]+leaves)
	}
	b := builder{Tree: t, nodes: nodes, node: make([]int, 0, len(t.links))}
	for i := range nodes {
		for range t.first[i+1] - t.first[i] {
			b.node = append(b.node, i)
		}
	}
	b.sort()
	for l := range levels {
		b.divide(l)
	}
	b.findProblems()
	return t
}

// builder is a Tree while it is being made.
type builder struct {
	*Tree
	nodes []Node
	node  []int // by leaf
}

// value returns the value of a leaf at a level.
func (b *builder) value(l, leaf int) string {
	n := &b.nodes[b.node[leaf]]
	if b.levels[l].Source == Device {
		if bin := leaf - b.first[b.node[leaf]]; bin < len(n.Bins) {
			return n.Bins[bin].Value
		}
		return ""
	}
	if l < len(n.Values) {
		return n.Values[l]
	}
	return ""
}

// sort orders leaves so that those of every domain are adjacent, and those without a value
// come last. Two nodes with one name stay two.
func (b *builder) sort() {
	b.order = make([]int, len(b.links))
	for i := range b.order {
		b.order[i] = i
	}
	slices.SortFunc(b.order, func(x, y int) int {
		for l := range b.levels {
			v, w := b.value(l, x), b.value(l, y)
			if v != w {
				if v == "" || w == "" {
					return len(w) - len(v)
				}
				return strings.Compare(v, w)
			}
			if b.levels[l].Source == Self && b.node[x] != b.node[y] {
				return cmp.Compare(b.node[x], b.node[y])
			}
		}
		return cmp.Compare(x, y)
	})
	b.position = make([]int, len(b.order))
	for i, leaf := range b.order {
		b.position[leaf] = i
	}
}

// divide makes the domains of a level from those of the level outside.
func (b *builder) divide(l int) {
	b.at[l] = make([]int32, len(b.links))
	last, node := -1, -1
	for i, leaf := range b.order {
		parent := -1
		if l > 0 {
			parent = int(b.at[l-1][leaf])
		}
		v := b.value(l, leaf)
		fresh := last < 0 || b.domains[l][last].Parent != parent || b.domains[l][last].Name != v ||
			b.levels[l].Source == Self && node != b.node[leaf]
		if fresh {
			b.domains[l] = append(b.domains[l], Domain{Name: v, Parent: parent, Missing: v == "", from: i})
			last, node = last+1, -1
		}
		d := &b.domains[l][last]
		d.to = i + 1
		if node != b.node[leaf] {
			d.Nodes++
			node = b.node[leaf]
		}
		b.at[l][leaf] = int32(last)
	}
}

// Levels returns the levels of the tree, outermost first.
func (t *Tree) Levels() []Level { return t.levels }

// Level returns the number of a level by its name, or -1.
func (t *Tree) Level(name string) int {
	return slices.IndexFunc(t.levels, func(l Level) bool { return l.Name == name })
}

// Domains returns the domains of a level in the order of the tree: domains of one parent
// are adjacent. The caller must not change them.
func (t *Tree) Domains(level int) []Domain { return t.domains[level] }

// Leaves returns how many leaves there are.
func (t *Tree) Leaves() int { return len(t.links) }

// Leaf returns the leaf of a node's bin, or -1 if the bin is not in the tree. If the bin
// is unknown (-1), Leaf returns the node's first leaf.
func (t *Tree) Leaf(node, bin int) int {
	if node < 0 || node >= len(t.first)-1 {
		return -1
	}
	leaf := t.first[node] + max(0, bin)
	if leaf >= t.first[node+1] {
		return -1
	}
	return leaf
}

// Domain returns the domain that a leaf is in at a level.
func (t *Tree) Domain(level, leaf int) int { return int(t.at[level][leaf]) }

// Within returns the leaves of a domain, in the order of the tree. The caller must not
// change them.
func (t *Tree) Within(level, domain int) []int {
	d := &t.domains[level][domain]
	return t.order[d.from:d.to]
}

// Position returns the position of a leaf in the order of the tree. In this order, the
// leaves of each domain are adjacent, at every level.
func (t *Tree) Position(leaf int) int { return t.position[leaf] }

// Path returns the names of a domain and of those around it, outermost first.
func (t *Tree) Path(level, domain int) []string {
	out := make([]string, level+1)
	for ; level >= 0; level-- {
		d := &t.domains[level][domain]
		out[level] = t.Title(level, domain)
		domain = d.Parent
	}
	return out
}

// Title returns the name of a domain for display, such as "(no meta.rack)" for the domain
// without a value.
func (t *Tree) Title(level, domain int) string {
	if t.domains[level][domain].Missing {
		return "(no " + t.levels[level].Name + ")"
	}
	return t.domains[level][domain].Name
}

// Common returns the innermost domain that contains all the leaves; ok is false if only
// the whole pool does. Unknown leaves (-1) are ignored.
func (t *Tree) Common(leaves []int) (level, domain int, ok bool) {
	low, high := -1, -1 // the first and the last in the order of the tree
	for _, leaf := range leaves {
		if leaf < 0 {
			continue
		}
		if low < 0 || t.position[leaf] < t.position[low] {
			low = leaf
		}
		if high < 0 || t.position[leaf] > t.position[high] {
			high = leaf
		}
	}
	if low < 0 {
		return 0, 0, false
	}
	for l := len(t.levels) - 1; l >= 0; l-- {
		if t.at[l][low] == t.at[l][high] {
			return l, int(t.at[l][low]), true
		}
	}
	return 0, 0, false
}
