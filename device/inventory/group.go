// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// GroupBy selects how the units of one product are split into groups.
type GroupBy string

// Values of GroupBy.
const (
	// GroupByNode makes one group of all units of a product, as
	// nomad-device-nvidia does.
	GroupByNode GroupBy = "node"
	// GroupByNVLink makes one group per NVLink island.
	GroupByNVLink GroupBy = "nvlink"
	// GroupByNUMA makes one group per NUMA node.
	GroupByNUMA GroupBy = "numa"
	// GroupByPCIe makes one group per PCIe switch.
	GroupByPCIe GroupBy = "pcie"
)

// Groupings returns all values of GroupBy.
func Groupings() []GroupBy {
	return []GroupBy{GroupByNode, GroupByNVLink, GroupByNUMA, GroupByPCIe}
}

// Group is a set of units that are offered together.
type Group struct {
	Name string
	// Members are positions in the layout's units.
	Members []int
}

// Groups returns the groups in the order of their names.
func (l Layout) Groups() []Group {
	members := map[string][]int{}
	for i := range l.Units {
		name := l.GroupName(i)
		members[name] = append(members[name], i)
	}
	groups := make([]Group, 0, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		groups = append(groups, Group{Name: name, Members: members[name]})
	}
	return groups
}

// GroupName returns the name of a unit's group. With [GroupByNode] it is the
// product alone, so that jobs that use the product's name keep working.
func (l Layout) GroupName(i int) string {
	u := l.Units[i]
	product := cmp.Or(u.Product(), "notAvailable")
	switch l.By {
	case GroupByNVLink:
		return product + " " + l.IslandName(i)
	case GroupByNUMA:
		return product + " " + NUMAName(u.GPU.NUMA)
	case GroupByPCIe:
		return product + " " + l.SwitchName(i)
	default:
		return product
	}
}

// NUMAName returns the name of a NUMA node. It is numa-unknown if the kernel
// reports no node, as on most machines with one socket and on many virtual
// machines.
func NUMAName(node int) string {
	if node < 0 {
		return "numa-unknown"
	}
	return fmt.Sprintf("numa%d", node)
}
