// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/topology"
)

// layout is where every unit of the machine is, counted over all models.
type layout struct {
	units  []unit
	matrix *topology.Matrix
	// switches numbers the PCIe switches, or roots of GPUs that hang on none,
	// in the order of their addresses.
	switches []string
	// island is the number of the NVLink island of each unit, islands how many
	// there are.
	island  []int
	islands int
}

func newLayout(m *machine) layout {
	l := layout{units: m.units()}
	l.matrix = m.matrix(l.units)
	for _, u := range l.units {
		l.switches = append(l.switches, pciePlace(u))
	}
	slices.Sort(l.switches)
	l.switches = slices.Compact(l.switches)
	l.numberIslands()
	return l
}

// pciePlace is the switch, else the root, else the GPU for itself.
func pciePlace(u unit) string {
	return cmp.Or(u.card.facts.Switch, u.card.facts.Root, u.card.facts.Bus)
}

// numberIslands counts islands in the order of the PCI addresses. MIG instances
// have no NVLink: those of one GPU count as one island, for they are one GPU.
func (l *layout) numberIslands() {
	type key struct {
		card   *card // of MIG instances
		island int   // of whole GPUs
	}
	numbers := map[key]int{}
	for i, u := range l.units {
		k := key{island: l.matrix.Island(i)}
		if u.instance != nil {
			k = key{card: u.card}
		}
		if _, met := numbers[k]; !met {
			numbers[k] = len(numbers)
		}
		l.island = append(l.island, numbers[k])
	}
	l.islands = len(numbers)
}

func (l layout) islandName(i int) string { return fmt.Sprintf("nvlink%d", l.island[i]) }

// islandSize is how many units are joined with this one.
func (l layout) islandSize(i int) int {
	return len(l.matrix.Islands()[l.matrix.Island(i)])
}

// groupName is the name under which Nomad knows a unit. With group_by = "node"
// it is the product alone, so that jobs that name it keep working.
func (l layout) groupName(by GroupBy, i int) string {
	u := l.units[i]
	product := cmp.Or(u.product(), "notAvailable")
	switch by {
	case GroupByNVLink:
		return product + " " + l.islandName(i)
	case GroupByNUMA:
		return product + " " + numaName(u.card.facts.NUMA)
	case GroupByPCIe:
		n, _ := slices.BinarySearch(l.switches, pciePlace(u))
		return fmt.Sprintf("%s pcie%d", product, n)
	default:
		return product
	}
}

// numaName is numa-unknown where the kernel tells no node, as on most machines
// with one socket and many virtual ones.
func numaName(node int) string {
	if node < 0 {
		return "numa-unknown"
	}
	return fmt.Sprintf("numa%d", node)
}

// condition is what is published about a unit's health.
type condition struct {
	ok     bool
	reason string
}

// groups makes what Nomad is told, given the name of the group of each unit.
// The same input gives the same output, so that a change can be seen by
// comparing.
func (l layout) groups(nameOf []string, m *machine, health map[string]condition) []*device.DeviceGroup {
	members := map[string][]int{}
	for i, name := range nameOf {
		members[name] = append(members[name], i)
	}
	names := slices.Sorted(maps.Keys(members))
	groups := make([]*device.DeviceGroup, 0, len(names))
	for _, name := range names {
		g := &device.DeviceGroup{Vendor: vendor, Type: deviceType, Name: name}
		healthy := 0
		for _, i := range members[name] {
			u := l.units[i]
			c := health[u.id()]
			if c.ok {
				healthy++
			}
			g.Devices = append(g.Devices, &device.Device{
				ID:         u.id(),
				Healthy:    c.ok,
				HealthDesc: c.reason,
				HwLocality: &device.DeviceLocality{PciBusID: u.card.facts.Bus},
			})
		}
		g.Attributes = l.attributes(m, members[name], healthy)
		groups = append(groups, g)
	}
	return groups
}
