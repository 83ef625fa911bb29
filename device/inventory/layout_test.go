// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
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
