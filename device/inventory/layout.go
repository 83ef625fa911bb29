// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kolo-nomad/kolo/device/topology"
)

// Layout states where every unit of the machine is: its group, NVLink island, NUMA
// node and PCIe switch. It covers all products. It is immutable, and can be
// compared with reflect.DeepEqual.
type Layout struct {
	// Units are in the order of PCI addresses.
	Units []Unit
	// Matrix holds the links between the units, by their position in Units.
	Matrix *topology.Matrix
	// By selects how products are split into groups.
	By GroupBy
	// Islands is the number of islands, by the NVLinks that are up.
	Islands int

	// islandIDs and switchIDs are stable, see [StableIDs].
	islandIDs, switchIDs []int
	isolated             []bool
}

// NewLayout lays out the GPUs, and assigns IDs to new islands and switches.
func NewLayout(inv *Inventory, by GroupBy, stable *StableIDs) Layout {
	l := Layout{Units: inv.units(), By: by}
	l.Matrix = inv.matrix(l.Units)
	var switches []string
	for _, u := range l.Units {
		switches = append(switches, u.switchKey())
	}
	slices.Sort(switches)
	component := l.components()
	islands := make([][]Unit, l.Islands)
	for i, u := range l.Units {
		islands[component[i]] = append(islands[component[i]], u)
	}
	assigned := stable.assign(slices.Compact(switches), islands)
	for _, u := range l.Units {
		l.islandIDs = append(l.islandIDs, assigned.Islands[u.islandKey()])
		l.switchIDs = append(l.switchIDs, assigned.Switches[u.switchKey()])
	}
	l.findIsolated(inv, component)
	return l
}

// components computes the islands by the links that are up, in the order of PCI
// addresses, and returns the island of each unit. MIG instances have no NVLink;
// those of one GPU form one island, because they are one GPU.
func (l *Layout) components() []int {
	type key struct {
		migGPU string // the UUID, of MIG instances
		island int    // of whole GPUs
	}
	seen := map[key]int{}
	component := make([]int, len(l.Units))
	for i, u := range l.Units {
		k := key{island: l.Matrix.Island(i)}
		if u.Instance != nil {
			k = key{migGPU: u.GPU.UUID}
		}
		if _, known := seen[k]; !known {
			seen[k] = len(seen)
		}
		component[i] = seen[k]
	}
	l.Islands = len(seen)
	return component
}

// findIsolated finds the units that are not linked with the largest part of the
// reachable units with their island ID. If parts have equal size, the first one
// counts as the largest.
func (l *Layout) findIsolated(inv *Inventory, component []int) {
	type part struct{ id, component int }
	size := map[part]int{}
	for i, id := range l.islandIDs {
		if inv.find(l.Units[i].GPU.UUID).Handle != nil {
			size[part{id, component[i]}]++
		}
	}
	largest := map[int]int{} // the component, by island id
	for i, id := range l.islandIDs {
		best, known := largest[id]
		if !known || size[part{id, component[i]}] > size[part{id, best}] {
			largest[id] = component[i]
		}
	}
	for i, id := range l.islandIDs {
		l.isolated = append(l.isolated, component[i] != largest[id])
	}
}

// Isolated reports whether a unit has lost its NVLinks to most units of its island.
func (l Layout) Isolated(i int) bool { return l.isolated[i] }

// IslandName returns the stable name of a unit's island.
func (l Layout) IslandName(i int) string { return fmt.Sprintf("nvlink%d", l.islandIDs[i]) }

// SwitchName returns the stable name of a unit's PCIe switch, or of its PCIe root
// if there is no switch.
func (l Layout) SwitchName(i int) string { return fmt.Sprintf("pcie%d", l.switchIDs[i]) }

// Compare orders units a and b, given by position, so that units close to each
// other are adjacent: by NUMA node, NVLink island, PCIe switch and PCI address.
func (l Layout) Compare(a, b int) int {
	return cmp.Or(
		cmp.Compare(l.Units[a].GPU.NUMA, l.Units[b].GPU.NUMA),
		cmp.Compare(l.islandIDs[a], l.islandIDs[b]),
		cmp.Compare(l.switchIDs[a], l.switchIDs[b]),
		cmp.Compare(a, b),
	)
}

// IslandSize returns how many units a unit's island currently has, including
// itself.
func (l Layout) IslandSize(i int) int {
	return len(l.Matrix.Islands()[l.Matrix.Island(i)])
}
