// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// genInventory draws machines of up to eight GPUs of two models, some linked in
// pairs, some split into instances.
func genInventory(rt *rapid.T) *inventory.Inventory {
	inv := &inventory.Inventory{}
	n := rapid.IntRange(0, 8).Draw(rt, "gpus")
	for i := range n {
		g := &inventory.GPU{Facts: nvml.Facts{
			UUID: fmt.Sprintf("GPU-%d", i),
			Name: rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "model"),
			Bus:  fmt.Sprintf("0000:%02x:00.0", i+1),
			NUMA: rapid.IntRange(-1, 1).Draw(rt, "numa"),
			Root: rapid.SampledFrom([]string{"", "pci0000:00", "pci0000:80"}).Draw(rt, "root"),
		}}
		if rapid.IntRange(0, 4).Draw(rt, "mig") == 0 {
			g.Facts.MIG = true
			for k := range rapid.IntRange(0, 3).Draw(rt, "instances") {
				g.Facts.Instances = append(g.Facts.Instances, nvml.Instance{
					UUID: fmt.Sprintf("MIG-%d-%d", i, k), Name: g.Facts.Name + " MIG 1g", Profile: "1g",
				})
			}
		}
		inv.GPUs = append(inv.GPUs, g)
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			if rapid.IntRange(0, 4).Draw(rt, "joined") == 0 {
				a, b := &inv.GPUs[i].Facts, &inv.GPUs[j].Facts
				a.Ports = append(a.Ports, topology.Port{Remote: b.Bus, MBps: 25000})
				b.Ports = append(b.Ports, topology.Port{Remote: a.Bus, MBps: 25000})
			}
		}
	}
	return inv
}

// However GPUs are linked and grouped, every unit is in one group, a group has one
// product and one locality, and its attributes agree with its devices.
func TestGroupsProperties(t *testing.T) {
	empty := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		inv := genInventory(rt)
		by := rapid.SampledFrom(inventory.Groupings()).Draw(rt, "group_by")
		l := inventory.NewLayout(inv, by, inventory.ReadStableIDs(empty))
		health := map[string]monitor.Condition{}
		for _, u := range l.Units {
			health[u.ID()] = monitor.Condition{Healthy: rapid.Bool().Draw(rt, "healthy")}
		}
		groups := groups(&monitor.View{Layout: l, Health: health})
		seen := map[string]bool{}
		islands := map[string]bool{}
		for _, g := range groups {
			must.NoError(rt, g.Validate())
			healthy := 0
			locality := map[any]bool{}
			product := map[string]bool{}
			for _, d := range g.Devices {
				must.False(rt, seen[d.ID], must.Sprintf("%s is in two groups", d.ID))
				seen[d.ID] = true
				if d.Healthy {
					healthy++
				}
				i := slices.IndexFunc(l.Units, func(u inventory.Unit) bool { return u.ID() == d.ID })
				product[l.Units[i].Product()] = true
				islands[l.IslandName(i)] = true
				switch by {
				case inventory.GroupByNVLink:
					locality[l.IslandName(i)] = true
				case inventory.GroupByNUMA:
					locality[l.Units[i].GPU.NUMA] = true
				case inventory.GroupByPCIe:
					locality[cmp.Or(l.Units[i].GPU.Switch, l.Units[i].GPU.Root, l.Units[i].GPU.Bus)] = true
				default:
					locality[""] = true
				}
			}
			must.MapLen(rt, 1, product)
			must.MapLen(rt, 1, locality)
			must.Eq(rt, int64(healthy), *g.Attributes[attrHealthy].Int)
			matrix, err := topology.Parse(*g.Attributes[attrTopology].String)
			must.NoError(rt, err)
			must.Eq(rt, len(g.Devices), matrix.Len())
		}
		must.MapLen(rt, len(l.Units), seen)
		must.Eq(rt, len(islands), l.Islands)
		for _, g := range groups {
			must.Eq(rt, int64(l.Islands), *g.Attributes[attrIslands].Int)
		}
	})
}
