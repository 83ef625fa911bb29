// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A collective sends from each rank to the next, and from the last to the first. So
// hosts in one domain of the network (a rack, a block of racks) get adjacent ranks. The
// ring then crosses the links between domains once per domain, not up to once per host.
//
//	joined    a r1   b r2   c r1   d r2       a -> b -> c -> d -> a   crosses 4 times
//	ranks     a r1   c r1   b r2   d r2       a -> c -> b -> d -> a   crosses 2 times

const (
	maxTopology = 256 // bytes of a path
	maxLevels   = 8   // domains in it
)

// CheckTopology returns an error if path is not a valid place of a host in the network. A
// path consists of the names of the host's domains, outermost first, separated by slashes.
// A name may be empty if it is unknown.
func CheckTopology(path string) error {
	switch {
	case len(path) > maxTopology:
		return fmt.Errorf("must have at most %d bytes, has %d", maxTopology, len(path))
	case strings.Count(path, "/") >= maxLevels:
		return fmt.Errorf("must have at most %d levels, has %d", maxLevels, strings.Count(path, "/")+1)
	case !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("must be printable text")
	case strings.Contains(path, "${"):
		return errors.New("has a variable that Nomad does not fill in")
	}
	return nil
}

// byTopology sorts hosts or replicas by domain; they get ranks in the returned order. The
// first stays first, because it has the state. The others follow as in the newest ring,
// newcomers last. All members of a domain come together, at the place of its first one. A
// host without a path stays behind the one before it. If no host has a path, the order does
// not change.
func (m *Machine) byTopology(list [][]candidate) [][]candidate {
	path := func(group []candidate) string { return m.hosts[group[0].proc.Slot.Host].topology }
	if !slices.ContainsFunc(list, func(group []candidate) bool { return path(group) != "" }) {
		return list
	}
	list = slices.Clone(list)
	position := m.positions()
	slices.SortStableFunc(list[1:], func(a, b []candidate) int { return cmp.Compare(position(a), position(b)) })
	paths := make([]string, len(list))
	for i, group := range list {
		paths[i] = path(group)
	}
	ordered := make([][]candidate, len(list))
	for i, from := range neighbours(paths) {
		ordered[i] = list[from]
	}
	return ordered
}

// positions returns a function from a host or a replica to its first rank in the newest
// ring.
func (m *Machine) positions() func([]candidate) int {
	ranks := map[SlotID]int{}
	if m.last != nil {
		for rank, id := range m.numbers(m.last.Members) {
			ranks[id] = rank
		}
	}
	return func(group []candidate) int {
		first := math.MaxInt
		for _, c := range group {
			if rank, ok := ranks[c.slot()]; ok {
				first = min(first, rank)
			}
		}
		return first
	}
}

// neighbours returns an order of paths, as indices, in which paths with a common prefix are
// adjacent at every level. Apart from that it keeps the order. An empty path counts as the
// one before it. A path that ends early is in a domain without a name.
func neighbours(paths []string) []int {
	paths = slices.Clone(paths)
	levels := 0
	for i := range paths {
		if paths[i] == "" && i > 0 {
			paths[i] = paths[i-1]
		}
		levels = max(levels, strings.Count(paths[i], "/"))
	}
	first := map[string]int{} // where a domain first appears
	keys := make([][]int, len(paths))
	for i, path := range paths {
		path += strings.Repeat("/", levels-strings.Count(path, "/")+1)
		for end, r := range path {
			if r != '/' {
				continue
			}
			domain := path[:end+1]
			if _, seen := first[domain]; !seen {
				first[domain] = i
			}
			keys[i] = append(keys[i], first[domain])
		}
	}
	order := make([]int, len(paths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(keys[a], keys[b]) })
	return order
}
