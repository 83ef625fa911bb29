// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// Attributes of a group. The first ones are the same as nomad-device-nvidia's.
const (
	attrMemory      = "memory"
	attrPower       = "power"
	attrBAR1        = "bar1"
	attrDriver      = "driver_version"
	attrCoreClock   = "cores_clock"
	attrMemoryClock = "memory_clock"
	attrPCI         = "pci_bandwidth"
	attrDisplay     = "display_state"
	attrPersistence = "persistence_mode"

	attrUUID          = "uuid"
	attrArchitecture  = "architecture"
	attrCompute       = "cuda_compute_capability"
	attrCUDA          = "cuda_driver_version"
	attrNVLinkVersion = "nvlink_version"
	attrNVLinkLinks   = "nvlink_links"
	attrNVLinkRate    = "nvlink_bandwidth"
	attrNVSwitch      = "nvswitch"
	attrIsland        = "island"
	attrIslandSize    = "island_size"
	attrIslands       = "islands"
	attrNUMA          = "numa_node"
	attrNUMAs         = "numa_nodes"
	attrSwitch        = "pcie_switch"
	attrRoot          = "pcie_root"
	attrPCIeGen       = "pcie_gen"
	attrPCIeWidth     = "pcie_width"
	attrP2P           = "p2p"
	attrCluster       = "fabric_cluster"
	attrClique        = "fabric_clique"
	attrMIGProfile    = "mig_profile"
	attrMIGParent     = "mig_parent"
	attrMemoryTotal   = "memory_total"
	attrECC           = "ecc"
	attrHealthy       = "healthy"
	attrTopology      = "topology"
)

// attributeSet collects the attributes of a group.
type attributeSet map[string]*structs.Attribute

// attributes returns the attributes of a group's members. Nomad has attributes only
// for a whole group. So if units differ, a number is the lowest of them (a
// constraint with >= then holds for each), a list has all values, and a fact with a
// single value is omitted.
func attributes(v *monitor.View, members []int, healthy int) map[string]*structs.Attribute {
	a := attributeSet{}
	us := values(members, func(i int) inventory.Unit { return v.Layout.Units[i] })
	a.text(attrDriver, v.Driver.Version)
	if v.Driver.CUDA > 0 {
		a[attrCUDA] = structs.NewFloatAttribute(v.Driver.CUDA, "")
	}
	a[attrHealthy] = structs.NewIntAttribute(int64(healthy), "")
	a.list(attrUUID, us, inventory.Unit.ID)
	a.describe(us)
	a.memory(us)
	a.locality(us)
	a.fabric(us)
	a.links(v.Layout, members)
	return a
}

// describe sets the facts about the GPU that nomad-device-nvidia reports, too.
func (a attributeSet) describe(us []inventory.Unit) {
	whole := func(f func(*nvml.Facts) *uint) func(inventory.Unit) *uint {
		return func(u inventory.Unit) *uint { return f(u.GPU) }
	}
	lowest(a, attrPower, structs.UnitW, us, whole(func(f *nvml.Facts) *uint { return f.PowerLimitW }))
	lowest(a, attrCoreClock, structs.UnitMHz, us, whole(func(f *nvml.Facts) *uint { return f.CoreClockMHz }))
	lowest(a, attrMemoryClock, structs.UnitMHz, us, whole(func(f *nvml.Facts) *uint { return f.MemoryClockMHz }))
	lowest(a, attrPCI, structs.UnitMBPerS, us, whole(pciBandwidth))
	lowest(a, attrPCIeGen, "", us, func(u inventory.Unit) *int { return positive(u.GPU.PCIeGen) })
	lowest(a, attrPCIeWidth, "", us, func(u inventory.Unit) *int { return positive(u.GPU.PCIeWidth) })
	a.common(attrDisplay, us, func(u inventory.Unit) string { return onOff(u.GPU.Display) })
	a.common(attrPersistence, us, func(u inventory.Unit) string { return onOff(u.GPU.Persistence) })
	a.common(attrArchitecture, us, func(u inventory.Unit) string { return u.GPU.Architecture })
	if ecc := onOff(us[0].GPU.ECC); ecc != "" && same(us, func(u inventory.Unit) string { return onOff(u.GPU.ECC) }) {
		a[attrECC] = structs.NewBoolAttribute(*us[0].GPU.ECC)
	}
	if c := slices.Min(values(us, func(u inventory.Unit) float64 { return u.GPU.Compute })); c > 0 {
		a[attrCompute] = structs.NewFloatAttribute(c, "")
	}
	if us[0].Instance != nil {
		a.common(attrMIGProfile, us, func(u inventory.Unit) string { return u.Instance.Profile })
		a.list(attrMIGParent, us, func(u inventory.Unit) string { return u.GPU.UUID })
	}
}

// memory sets the memory of one unit, and of all units together.
func (a attributeSet) memory(us []inventory.Unit) {
	lowest(a, attrMemory, structs.UnitMiB, us, inventory.Unit.MemoryMiB)
	lowest(a, attrBAR1, structs.UnitMiB, us, func(u inventory.Unit) *uint64 { return u.GPU.BAR1MiB })
	total := int64(0)
	for _, u := range us {
		if mib := u.MemoryMiB(); mib != nil {
			total += int64(*mib)
		}
	}
	if total > 0 {
		a[attrMemoryTotal] = structs.NewIntAttribute(total, structs.UnitMiB)
	}
}

// locality sets where in the machine the units are.
func (a attributeSet) locality(us []inventory.Unit) {
	node := func(u inventory.Unit) int { return u.GPU.NUMA }
	if n := node(us[0]); n >= 0 && same(us, node) {
		a[attrNUMA] = structs.NewIntAttribute(int64(n), "")
	}
	a.list(attrNUMAs, us, func(u inventory.Unit) string {
		if node(u) < 0 {
			return ""
		}
		return inventory.NUMAName(node(u))
	})
	a.list(attrSwitch, us, func(u inventory.Unit) string { return u.GPU.Switch })
	a.list(attrRoot, us, func(u inventory.Unit) string { return u.GPU.Root })
}

// fabric sets the NVLink fabric across machines that the units belong to.
func (a attributeSet) fabric(us []inventory.Unit) {
	type membership struct {
		cluster string
		clique  uint32
		known   bool
	}
	of := func(u inventory.Unit) membership {
		if f := u.GPU.Fabric; f != nil && f.Ready && f.Cluster != "" && u.Instance == nil {
			return membership{f.Cluster, f.Clique, true}
		}
		return membership{}
	}
	if m := of(us[0]); m.known && same(us, of) {
		a.text(attrCluster, m.cluster)
		a[attrClique] = structs.NewIntAttribute(int64(m.clique), "")
	}
}

// links sets how the units are linked. If a group is an island, isolated units do
// not count: they are unhealthy as long as they are isolated.
func (a attributeSet) links(l inventory.Layout, all []int) {
	members := all
	if l.By == inventory.GroupByNVLink {
		members = slices.DeleteFunc(slices.Clone(all), l.Isolated)
	}
	if len(members) == 0 {
		members = all
	}
	links, mbps, size := math.MaxInt, math.MaxInt, math.MaxInt
	switched, version := true, math.Inf(1)
	for _, i := range members {
		n, bandwidth, sw := l.Units[i].NVLinks()
		links, mbps, size = min(links, n), min(mbps, bandwidth), min(size, l.IslandSize(i))
		switched = switched && sw
		version = min(version, l.Units[i].GPU.NVLinkVersion)
	}
	if links > 0 && version > 0 {
		a[attrNVLinkVersion] = structs.NewFloatAttribute(version, "")
	}
	if links > 0 && mbps > 0 {
		a[attrNVLinkRate] = structs.NewIntAttribute(int64(mbps), structs.UnitMBPerS)
	}
	a[attrNVLinkLinks] = structs.NewIntAttribute(int64(links), "")
	a[attrNVSwitch] = structs.NewBoolAttribute(switched)
	a[attrIslandSize] = structs.NewIntAttribute(int64(size), "")
	a[attrIslands] = structs.NewIntAttribute(int64(l.Islands), "")
	a[attrP2P] = structs.NewBoolAttribute(l.Matrix.Joined(members))
	a[attrTopology] = structs.NewStringAttribute(l.Matrix.Sub(all).Encode())
	names := values(all, l.IslandName)
	slices.Sort(names)
	a.text(attrIsland, strings.Join(slices.Compact(names), ","))
}

// pciBandwidth returns the bandwidth as nomad-device-nvidia counts it, by whole
// powers of two per lane, so that constraints written for it hold: 1024 MB/s for a
// lane of the third generation. (For the fifth, nomad-device-nvidia has 3072, but
// 4096 is right.)
func pciBandwidth(f *nvml.Facts) *uint {
	if f.PCIeGen < 1 || f.PCIeWidth < 1 {
		return nil
	}
	v := uint(f.PCIeWidth) * 256 << (f.PCIeGen - 1)
	return &v
}

func (a attributeSet) text(name, value string) {
	if value != "" {
		a[name] = structs.NewStringAttribute(value)
	}
}

// common sets a text that all units share.
func (a attributeSet) common(name string, us []inventory.Unit, f func(inventory.Unit) string) {
	if same(us, f) {
		a.text(name, f(us[0]))
	}
}

// list sets the distinct values in the order of the units, separated by commas, for
// set_contains.
func (a attributeSet) list(name string, us []inventory.Unit, f func(inventory.Unit) string) {
	var all []string
	for _, u := range us {
		if v := f(u); v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	a.text(name, strings.Join(all, ","))
}

// lowest sets the lowest value of a number that every unit has.
func lowest[N int | uint | uint64](a attributeSet, name, unitName string, us []inventory.Unit, f func(inventory.Unit) *N) {
	all := values(us, f)
	if slices.Contains(all, nil) {
		return
	}
	low := *all[0]
	for _, v := range all {
		low = min(low, *v)
	}
	a[name] = structs.NewIntAttribute(int64(low), unitName)
}

func values[E, V any](us []E, f func(E) V) []V {
	all := make([]V, len(us))
	for i, u := range us {
		all[i] = f(u)
	}
	return all
}

func same[V comparable](us []inventory.Unit, f func(inventory.Unit) V) bool {
	return !slices.ContainsFunc(us, func(u inventory.Unit) bool { return f(u) != f(us[0]) })
}

func positive(n int) *int {
	if n < 1 {
		return nil
	}
	return &n
}

func onOff(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "Enabled"
	default:
		return "Disabled"
	}
}
