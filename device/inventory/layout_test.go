// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

func TestGroupByPCIeSwitch(t *testing.T) {
	at := func(id, bus, sw, root string) *GPU {
		return &GPU{Facts: nvml.Facts{UUID: id, Name: "L40S", Bus: bus, Switch: sw, Root: root, NUMA: -1}}
	}
	inv := &Inventory{GPUs: []*GPU{
		at("a", "0000:16:00.0", "0000:11:00.0", "pci0000:10"),
		at("b", "0000:27:00.0", "0000:11:00.0", "pci0000:10"),
		at("c", "0000:81:00.0", "", "pci0000:80"),
		at("d", "0000:91:00.0", "", ""),
	}}
	ids := ReadStableIDs(t.TempDir())
	pcie, numa := NewLayout(inv, GroupByPCIe, ids), NewLayout(inv, GroupByNUMA, ids)
	must.Eq(t, []Group{
		{Name: "L40S pcie0", Members: []int{0, 1}},
		{Name: "L40S pcie1", Members: []int{3}},
		{Name: "L40S pcie2", Members: []int{2}},
	}, pcie.Groups())
	must.Eq(t, "L40S numa-unknown", numa.GroupName(0))
}

// TestCompare has a board whose addresses alternate between two NUMA nodes, and
// whose NVLinks connect every other GPU of a node.
func TestCompare(t *testing.T) {
	inv := &Inventory{}
	for i, numa := range []int{0, 1, 0, 1, 0, 1, 0, 1} {
		bus := func(i int) string { return "0000:" + string(rune('1'+i)) + "0:00.0" }
		peer := (i + 4) % 8
		inv.GPUs = append(inv.GPUs, &GPU{Facts: nvml.Facts{
			UUID: string(rune('a' + i)), Name: "V100", Bus: bus(i), NUMA: numa, Root: "pci0000:00", Ports: []topology.Port{{Remote: bus(peer)}},
		}})
	}
	l := NewLayout(inv, GroupByNode, ReadStableIDs(t.TempDir()))
	order := []int{7, 6, 5, 4, 3, 2, 1, 0}
	slices.SortFunc(order, l.Compare)
	must.Eq(t, []int{0, 4, 2, 6, 1, 5, 3, 7}, order)
}
