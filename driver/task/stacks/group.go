// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Group is a set of processes that do the same. All fields of Process except for Threads
// and State may differ within a group.
type Group[T any] struct {
	Members []T
	// Suspect states that most other processes do something else.
	Suspect bool
}

// Groups puts processes with equal stacks and states together. The smallest groups are
// first: those are the odd ones. Among groups of equal size, processes that a signal or the
// kernel keeps from running are first, then processes that were given first.
//
// All groups are suspects except for the largest. If no group is the only largest, no
// process is known to be healthy, and all are suspects. If there is only one group, it is
// no suspect.
func Groups[T any](all []T, process func(*T) *Process) []Group[T] {
	at := map[string]int{}
	var groups []Group[T]
	for i := range all {
		key := process(&all[i]).key()
		n, known := at[key]
		if !known {
			n = len(groups)
			at[key] = n
			groups = append(groups, Group[T]{})
		}
		groups[n].Members = append(groups[n].Members, all[i])
	}
	slices.SortStableFunc(groups, func(a, b Group[T]) int {
		return cmp.Or(cmp.Compare(len(a.Members), len(b.Members)),
			cmp.Compare(process(&a.Members[0]).rank(), process(&b.Members[0]).rank()))
	})
	for i := range groups {
		last := i == len(groups)-1
		alone := len(groups) == 1 || len(groups[len(groups)-2].Members) < len(groups[len(groups)-1].Members)
		groups[i].Suspect = !last || !alone
	}
	return groups
}

// rank orders the processes of groups of equal size: 0 is the oddest.
func (p *Process) rank() int {
	if p.held() {
		return 0
	}
	return 1
}

// held reports whether the process cannot run at all. Running and sleeping are no
// difference: a healthy process alternates between them.
func (p *Process) held() bool { return p.State != Running && p.State != Sleeping }

// key is equal for processes that do the same. The name of a function is taken without its
// class, which only py-spy knows.
func (p *Process) key() string {
	var b strings.Builder
	if p.held() {
		fmt.Fprintf(&b, "%s\n", p.State)
	}
	main := p.Main()
	if main == nil {
		fmt.Fprintf(&b, "unknown: %s", p.Missing)
		return b.String()
	}
	for _, f := range main.Frames {
		name := f.Function[strings.LastIndexByte(f.Function, '.')+1:]
		fmt.Fprintf(&b, "%s\t%s\t%d\n", name, f.File, f.Line)
	}
	return b.String()
}
