// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// Attributes of a group. The first ones are those of nomad-device-nvidia.
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

// attributeSet collects what a group has to say.
type attributeSet map[string]*structs.Attribute

// attributes describes the units of a group. Nomad has attributes for a group
// only, so where units differ a number is the lowest of them (what is asked
// with >= then holds for each), a list has all, and a fact that has one value
// or none is left out.
func (l layout) attributes(m *machine, members []int, healthy int) map[string]*structs.Attribute {
	a := attributeSet{}
	us := make([]unit, len(members))
	for i, j := range members {
		us[i] = l.units[j]
	}
	a.text(attrDriver, m.driver.Version)
	if m.driver.CUDA > 0 {
		a[attrCUDA] = structs.NewFloatAttribute(m.driver.CUDA, "")
	}
	a[attrHealthy] = structs.NewIntAttribute(int64(healthy), "")
	a.list(attrUUID, us, func(u unit) string { return u.id() })
	a.describe(us)
	a.places(us)
	l.links(a, members)
	return a
}

// describe sets what nomad-device-nvidia also tells, and what the GPU is.
func (a attributeSet) describe(us []unit) {
	whole := func(f func(nvml.Facts) *uint) func(unit) *uint {
		return func(u unit) *uint { return f(u.card.facts) }
	}
	lowest(a, attrMemory, structs.UnitMiB, us, unit.memoryMiB)
	lowest(a, attrBAR1, structs.UnitMiB, us, func(u unit) *uint64 { return u.card.facts.BAR1MiB })
	lowest(a, attrPower, structs.UnitW, us, whole(func(f nvml.Facts) *uint { return f.PowerLimitW }))
	lowest(a, attrCoreClock, structs.UnitMHz, us, whole(func(f nvml.Facts) *uint { return f.CoreClockMHz }))
	lowest(a, attrMemoryClock, structs.UnitMHz, us, whole(func(f nvml.Facts) *uint { return f.MemoryClockMHz }))
	lowest(a, attrPCI, structs.UnitMBPerS, us, whole(pciBandwidth))
	lowest(a, attrPCIeGen, "", us, func(u unit) *int { return positive(u.card.facts.PCIeGen) })
	lowest(a, attrPCIeWidth, "", us, func(u unit) *int { return positive(u.card.facts.PCIeWidth) })
	a.common(attrDisplay, us, func(u unit) string { return onOff(u.card.facts.Display) })
	a.common(attrPersistence, us, func(u unit) string { return onOff(u.card.facts.Persistence) })
	a.common(attrArchitecture, us, func(u unit) string { return u.card.facts.Architecture })
	if ecc := onOff(us[0].card.facts.ECC); ecc != "" && same(us, func(u unit) string { return onOff(u.card.facts.ECC) }) {
		a[attrECC] = structs.NewBoolAttribute(*us[0].card.facts.ECC)
	}
	if c := slices.Min(values(us, func(u unit) float64 { return u.card.facts.Compute })); c > 0 {
		a[attrCompute] = structs.NewFloatAttribute(c, "")
	}
	total := int64(0)
	for _, u := range us {
		if mib := u.memoryMiB(); mib != nil {
			total += int64(*mib)
		}
	}
	if total > 0 {
		a[attrMemoryTotal] = structs.NewIntAttribute(total, structs.UnitMiB)
	}
	if us[0].instance != nil {
		a.common(attrMIGProfile, us, func(u unit) string { return u.instance.Profile })
		a.list(attrMIGParent, us, func(u unit) string { return u.card.facts.UUID })
	}
}

// places sets where on the machine, and in the rack, the units are.
func (a attributeSet) places(us []unit) {
	node := func(u unit) int { return u.card.facts.NUMA }
	if n := node(us[0]); n >= 0 && same(us, node) {
		a[attrNUMA] = structs.NewIntAttribute(int64(n), "")
	}
	a.list(attrNUMAs, us, func(u unit) string {
		if node(u) < 0 {
			return ""
		}
		return numaName(node(u))
	})
	a.list(attrSwitch, us, func(u unit) string { return u.card.facts.Switch })
	a.list(attrRoot, us, func(u unit) string { return u.card.facts.Root })

	type fabric struct {
		cluster string
		clique  uint32
		there   bool
	}
	of := func(u unit) fabric {
		if f := u.card.facts.Fabric; f != nil && f.Ready && f.Cluster != "" && u.instance == nil {
			return fabric{f.Cluster, f.Clique, true}
		}
		return fabric{}
	}
	if f := of(us[0]); f.there && same(us, of) {
		a.text(attrCluster, f.cluster)
		a[attrClique] = structs.NewIntAttribute(int64(f.clique), "")
	}
}

// links sets how the units are joined. Where a group is an island, those that are
// cut off from it do not count: they are unhealthy until they are not.
func (l layout) links(a attributeSet, all []int) {
	members := all
	if l.by == GroupByNVLink {
		members = slices.DeleteFunc(slices.Clone(all), func(i int) bool { return l.cutOff[i] })
	}
	if len(members) == 0 {
		members = all
	}
	ports, rate, switched, version := -1, -1, true, -1.0
	size := -1
	for _, i := range members {
		u := l.units[i]
		n, mbps, sw := u.nvlinks()
		ports, rate = least(ports, n), least(rate, mbps)
		switched = switched && sw
		size = least(size, l.islandSize(i))
		if v := u.card.facts.NVLinkVersion; version < 0 || v < version {
			version = v
		}
	}
	if ports > 0 && version > 0 {
		a[attrNVLinkVersion] = structs.NewFloatAttribute(version, "")
	}
	if ports > 0 && rate > 0 {
		a[attrNVLinkRate] = structs.NewIntAttribute(int64(rate), structs.UnitMBPerS)
	}
	a[attrNVLinkLinks] = structs.NewIntAttribute(int64(ports), "")
	a[attrNVSwitch] = structs.NewBoolAttribute(switched)
	a[attrIslandSize] = structs.NewIntAttribute(int64(size), "")
	a[attrIslands] = structs.NewIntAttribute(int64(l.islands), "")
	a[attrP2P] = structs.NewBoolAttribute(l.matrix.Joined(members))
	a[attrTopology] = structs.NewStringAttribute(l.matrix.Sub(all).Encode())
	names := values(all, l.islandName)
	slices.Sort(names)
	a.text(attrIsland, strings.Join(slices.Compact(names), ","))
}

// pciBandwidth counts as nomad-device-nvidia does, by whole powers of two per
// lane, so that constraints written for it hold: 1024 MB/s for a lane of the
// third generation. (It has 3072 for the fifth, where it should be 4096.)
func pciBandwidth(f nvml.Facts) *uint {
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
func (a attributeSet) common(name string, us []unit, f func(unit) string) {
	if same(us, f) {
		a.text(name, f(us[0]))
	}
}

// list sets the different values in the order of the units, with commas
// between, for set_contains.
func (a attributeSet) list(name string, us []unit, f func(unit) string) {
	var all []string
	for _, u := range us {
		if v := f(u); v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	a.text(name, strings.Join(all, ","))
}

// lowest sets the least of a number, if every unit tells it.
func lowest[N int | uint | uint64](a attributeSet, name, unitName string, us []unit, f func(unit) *N) {
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

func same[V comparable](us []unit, f func(unit) V) bool {
	return !slices.ContainsFunc(us, func(u unit) bool { return f(u) != f(us[0]) })
}

func least(before, n int) int {
	if before < 0 {
		return n
	}
	return min(before, n)
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
