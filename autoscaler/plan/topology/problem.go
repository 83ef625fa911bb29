// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Problem reports missing or ambiguous values of nodes to the operator. The tree is still
// usable.
type Problem struct {
	Level string `json:"level"`
	What  string `json:"what"`
}

// maxProblems bounds how many problems are listed. One more entry has the number of the
// others.
const maxProblems = 50

// Problems returns the problems of the nodes' values, by level, outermost first.
func (t *Tree) Problems() []Problem { return t.problems }

// Unset returns the levels for which no node has a value.
func (t *Tree) Unset() []string {
	var out []string
	for l := range t.levels {
		if t.unset(l) {
			out = append(out, t.levels[l].Name)
		}
	}
	return out
}

func (t *Tree) unset(l int) bool {
	return len(t.domains[l]) > 0 && !slices.ContainsFunc(t.domains[l], func(d Domain) bool { return !d.Missing })
}

func (b *builder) findProblems() {
	for l := range b.levels {
		b.missing(l)
		b.shared(l)
	}
	if n := len(b.problems); n > maxProblems {
		b.problems = append(b.problems[:maxProblems:maxProblems], Problem{"", fmt.Sprintf("and %d more", n-maxProblems)})
	}
}

// missing finds nodes and devices without a value of a level. A level without any value is
// one problem, however many domains are around it.
func (b *builder) missing(l int) {
	if b.unset(l) {
		b.problem(l, "no node has a value of %s; %s", b.levels[l].Name, b.remedy(l))
		return
	}
	var of []int // domains
	nodes := 0
	for d := range b.domains[l] {
		if b.domains[l][d].Missing {
			of = append(of, d)
			nodes += b.domains[l][d].Nodes
		}
	}
	name := b.levels[l].Name
	if len(of) == 0 {
		return
	}
	if b.levels[l].Source == Device { // its parents are nodes, of which there are many
		var names []string
		for _, d := range of[:min(len(of), 3)] {
			names = append(names, b.someNodes(&b.domains[l][d]))
		}
		if len(of) > 3 {
			names = append(names, "…")
		}
		b.problem(l, "%s without a value of %s (%s); %s", count(nodes, "node"), name, strings.Join(names, ", "), b.remedy(l))
		return
	}
	for _, d := range of {
		at := &b.domains[l][d]
		where := ""
		if at.Parent >= 0 {
			where = " in " + strings.Join(b.Path(l-1, at.Parent), " / ")
		}
		b.problem(l, "%s%s without a value of %s (%s); %s", count(at.Nodes, "node"), where, name, b.someNodes(at), b.remedy(l))
	}
}

func (b *builder) remedy(l int) string {
	switch b.levels[l].Source {
	case Meta:
		return fmt.Sprintf("set it, to at most %d bytes, with nomad node meta apply -node-id <node> %s=<value>, or in the client's configuration", LongestValue, b.levels[l].Key)
	case Device:
		return "the device plugin divides a node by group_by; one group has one value"
	case Attr, Fact, Self:
	}
	return "such nodes count as one domain of their own"
}

// shared finds values below two parents: a constraint on the value does not distinguish the
// two domains.
func (b *builder) shared(l int) {
	if l == 0 || b.levels[l].Source == Self || b.levels[l].Source == Device {
		return
	}
	byName := map[string][]int{}
	for d := range b.domains[l] {
		if !b.domains[l][d].Missing {
			byName[b.domains[l][d].Name] = append(byName[b.domains[l][d].Name], d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		of := byName[name]
		if len(of) < 2 {
			continue
		}
		var places []string
		for _, d := range of[:min(len(of), 3)] {
			at := &b.domains[l][d]
			places = append(places, fmt.Sprintf("%s (%s)", strings.Join(b.Path(l-1, at.Parent), " / "), b.someNodes(at)))
		}
		if len(of) > 3 {
			places = append(places, fmt.Sprintf("%d more", len(of)-3))
		}
		b.problem(l, "%s %q is in %s; they count as %d domains, which a constraint on %s does not tell apart: give each a name of its own",
			b.levels[l].Name, name, strings.Join(places, " and in "), len(of), b.levels[l].Name)
	}
}

func (b *builder) problem(l int, format string, args ...any) {
	b.problems = append(b.problems, Problem{b.levels[l].Name, fmt.Sprintf(format, args...)})
}

// someNodes names the first nodes of a domain.
func (b *builder) someNodes(d *Domain) string {
	self := slices.IndexFunc(b.levels, isSelf)
	var names []string
	last := -1
	for _, leaf := range b.order[d.from:d.to] {
		n := b.node[leaf]
		if n == last || len(names) > 3 {
			continue
		}
		last = n
		if len(names) == 3 {
			names = append(names, "…")
		} else if self < len(b.nodes[n].Values) {
			names = append(names, b.nodes[n].Values[self])
		}
	}
	return strings.Join(names, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
