// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

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
	by     GroupBy
	// island and pcie are the numbers of the NVLink island of each unit and of
	// its PCIe switch, or root of a GPU that hangs on none.
	island, pcie []int
	// islands is how many there are now.
	islands int
	// cutOff tells of each unit that it has lost its links to most of those
	// that have the same number.
	cutOff []bool
}

// newLayout numbers what has no number yet.
func newLayout(m *machine, by GroupBy, p *places) layout {
	l := layout{units: m.units(), by: by}
	l.matrix = m.matrix(l.units)
	var switches []string
	for _, u := range l.units {
		switches = append(switches, pciePlace(u))
	}
	slices.Sort(switches)
	component := l.components()
	islands := make([][]unit, l.islands)
	for i, u := range l.units {
		islands[component[i]] = append(islands[component[i]], u)
	}
	known := p.add(slices.Compact(switches), islands)
	for _, u := range l.units {
		l.island = append(l.island, known.Islands[u.islander()])
		l.pcie = append(l.pcie, known.Switches[pciePlace(u)])
	}
	l.cut(component)
	return l
}

// pciePlace is the switch, else the root, else the GPU for itself.
func pciePlace(u unit) string {
	return cmp.Or(u.card.facts.Switch, u.card.facts.Root, u.card.facts.Bus)
}

// components counts islands by the links that are up, in the order of the PCI
// addresses, and returns the one of each unit. MIG instances have no NVLink: those
// of one GPU count as one island, for they are one GPU.
func (l *layout) components() []int {
	type key struct {
		card   *card // of MIG instances
		island int   // of whole GPUs
	}
	met := map[key]int{}
	component := make([]int, len(l.units))
	for i, u := range l.units {
		k := key{island: l.matrix.Island(i)}
		if u.instance != nil {
			k = key{card: u.card}
		}
		if _, known := met[k]; !known {
			met[k] = len(met)
		}
		component[i] = met[k]
	}
	l.islands = len(met)
	return component
}

// cut finds the units that are not joined with most of those of their number
// that can be reached; of parts that are equal the first one counts.
func (l *layout) cut(component []int) {
	type part struct{ number, component int }
	size := map[part]int{}
	for i, n := range l.island {
		if l.units[i].card.gpu != nil {
			size[part{n, component[i]}]++
		}
	}
	most := map[int]int{} // the component, by number
	for i, n := range l.island {
		best, met := most[n]
		if !met || size[part{n, component[i]}] > size[part{n, best}] {
			most[n] = component[i]
		}
	}
	for i, n := range l.island {
		l.cutOff = append(l.cutOff, component[i] != most[n])
	}
}

// numbers are those of the islands, by [unit.islander].
func (l layout) numbers() map[string]int {
	all := map[string]int{}
	for i, u := range l.units {
		all[u.islander()] = l.island[i]
	}
	return all
}

func (l layout) islandName(i int) string { return fmt.Sprintf("nvlink%d", l.island[i]) }

func (l layout) switchName(i int) string { return fmt.Sprintf("pcie%d", l.pcie[i]) }

// islandSize is how many units are joined with this one.
func (l layout) islandSize(i int) int {
	return len(l.matrix.Islands()[l.matrix.Island(i)])
}

// groupName is the name under which Nomad knows a unit. With group_by = "node"
// it is the product alone, so that jobs that name it keep working.
func (l layout) groupName(i int) string {
	u := l.units[i]
	product := cmp.Or(u.product(), "notAvailable")
	switch l.by {
	case GroupByNVLink:
		return product + " " + l.islandName(i)
	case GroupByNUMA:
		return product + " " + numaName(u.card.facts.NUMA)
	case GroupByPCIe:
		return product + " " + l.switchName(i)
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

// groups makes what Nomad is told. The same input gives the same output, so that
// a change can be seen by comparing.
func (l layout) groups(m *machine, health map[string]condition) []*device.DeviceGroup {
	members := map[string][]int{}
	for i := range l.units {
		name := l.groupName(i)
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
