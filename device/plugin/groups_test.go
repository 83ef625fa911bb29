// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inventory"
)

// wholeGPUs are machines of one group, with its attributes other than uuid.
var wholeGPUs = map[string]struct {
	machine string
	want    map[string]string
}{
	"HGX H100": {"hgx-h100", map[string]string{
		"memory": "81559 MiB", "power": "700 W", "bar1": "131072 MiB", "driver_version": "550.54.15",
		"cores_clock": "1980 MHz", "memory_clock": "2619 MHz", "pci_bandwidth": "65536 MB/s",
		"display_state": "Disabled", "persistence_mode": "Enabled",
		"architecture": "hopper", "cuda_compute_capability": "9",
		"cuda_driver_version": "12.4", "nvlink_version": "4", "nvlink_links": "18",
		"nvlink_bandwidth": "478116 MB/s", "nvswitch": "true", "island": "nvlink0",
		"island_size": "8", "islands": "1", "numa_nodes": "numa0,numa1", "pcie_gen": "5",
		"pcie_root": "pci0000:1b,pci0000:43,pci0000:52,pci0000:61,pci0000:9d,pci0000:c3,pci0000:d1,pci0000:df",
		"pcie_switch": "0000:f0:00.0,0000:f1:00.0,0000:f2:00.0,0000:f3:00.0," +
			"0000:f4:00.0,0000:f5:00.0,0000:f6:00.0,0000:f7:00.0",
		"pcie_width": "16", "p2p": "true", "memory_total": "652472 MiB", "ecc": "true",
		"healthy": "8", "topology": "8;28xNV18s",
	}},
	"DGX-1V": {"dgx-1v", map[string]string{
		"memory": "32510 MiB", "power": "300 W", "bar1": "32768 MiB", "driver_version": "450.80.02",
		"cores_clock": "1530 MHz", "memory_clock": "877 MHz", "pci_bandwidth": "16384 MB/s",
		"display_state": "Disabled", "persistence_mode": "Enabled",
		"architecture": "volta", "cuda_compute_capability": "7",
		"cuda_driver_version": "11", "nvlink_version": "2", "nvlink_links": "6",
		"nvlink_bandwidth": "154686 MB/s", "nvswitch": "false", "island": "nvlink0",
		"island_size": "8", "islands": "1", "numa_nodes": "numa0,numa1", "pcie_gen": "3",
		"pcie_root": "pci0000:00,pci0000:80", "pcie_switch": "0000:f0:00.0,0000:f1:00.0,0000:f2:00.0,0000:f3:00.0",
		"pcie_width": "16", "p2p": "false", "memory_total": "260080 MiB", "ecc": "true",
		"healthy":  "8",
		"topology": "8;2xNV1,2xNV2,3xSYS,NV2,NV1,SYS,NV2,2xSYS,NV2,2xSYS,NV1,4xSYS,3xNV1,2xNV2,NV1,NV2",
	}},
	"NVL72 tray": {"nvl72-tray", map[string]string{
		"memory": "189471 MiB", "power": "1200 W", "bar1": "262144 MiB", "driver_version": "570.86.15",
		"cores_clock": "2062 MHz", "memory_clock": "3996 MHz", "pci_bandwidth": "65536 MB/s",
		"display_state": "Disabled", "persistence_mode": "Enabled",
		"architecture": "blackwell", "cuda_compute_capability": "10",
		"cuda_driver_version": "12.8", "nvlink_version": "5", "nvlink_links": "18",
		"nvlink_bandwidth": "900000 MB/s", "nvswitch": "true", "island": "nvlink0",
		"island_size": "4", "islands": "1", "numa_nodes": "numa0,numa1", "pcie_gen": "5",
		"pcie_root":   "pci0008:00,pci0009:00,pci0018:00,pci0019:00",
		"pcie_switch": "0000:f0:00.0,0000:f1:00.0,0000:f2:00.0,0000:f3:00.0",
		"pcie_width":  "16", "p2p": "true", "memory_total": "757884 MiB", "ecc": "true",
		"fabric_cluster": "c0ffee00-1122-3344-5566-778899aabbcc", "fabric_clique": "32766",
		"healthy": "4", "topology": "4;6xNV18s",
	}},
	"two sockets with PCIe switches": {"pcie-l40s", map[string]string{
		"memory": "46068 MiB", "power": "350 W", "bar1": "65536 MiB", "driver_version": "550.54.15",
		"cores_clock": "2520 MHz", "memory_clock": "9001 MHz", "pci_bandwidth": "32768 MB/s",
		"display_state": "Disabled", "persistence_mode": "Disabled",
		"architecture": "ada", "cuda_compute_capability": "8.9",
		"cuda_driver_version": "12.4", "nvlink_links": "0", "nvswitch": "false",
		"island":      "nvlink0,nvlink1,nvlink2,nvlink3,nvlink4,nvlink5,nvlink6,nvlink7",
		"island_size": "1", "islands": "8", "numa_nodes": "numa0,numa1", "pcie_gen": "4",
		"pcie_root": "pci0000:10,pci0000:80", "pcie_switch": "0000:f0:00.0,0000:f1:00.0,0000:f2:00.0,0000:f3:00.0",
		"pcie_width": "16", "p2p": "false", "memory_total": "368544 MiB", "ecc": "true",
		"healthy": "8", "topology": "8;PIX,2xPHB,4xSYS,2xPHB,4xSYS,PIX,8xSYS,PIX,4xPHB,PIX",
	}},
	"one T4": {"one-t4", map[string]string{
		"memory": "15360 MiB", "power": "70 W", "bar1": "256 MiB", "driver_version": "550.54.15",
		"cores_clock": "1590 MHz", "memory_clock": "5001 MHz", "pci_bandwidth": "16384 MB/s",
		"display_state": "Disabled", "persistence_mode": "Disabled",
		"architecture": "turing", "cuda_compute_capability": "7.5",
		"cuda_driver_version": "12.4", "nvlink_links": "0", "nvswitch": "false", "island": "nvlink0",
		"island_size": "1", "islands": "1", "numa_node": "0", "numa_nodes": "numa0", "pcie_gen": "3",
		"pcie_root": "pci0000:00", "pcie_width": "16", "p2p": "true", "memory_total": "15360 MiB", "ecc": "true",
		"healthy": "1", "topology": "1;",
	}},
}

func TestAttributes(t *testing.T) {
	for name, tc := range wholeGPUs {
		t.Run(name, func(t *testing.T) {
			r := newHost(t, tc.machine, inventory.GroupByNode)
			want := maps.Clone(tc.want)
			want["uuid"] = strings.Join(r.hw.UUIDs(), ",")
			groups := r.groups()
			must.Len(t, 1, groups)
			expect(t, groups[0], want)
		})
	}
}

func TestAttributesOfTwoIslands(t *testing.T) {
	r := newHost(t, "two-boards-a100", inventory.GroupByNVLink)
	must.Len(t, 2, r.groups())
	g := r.groups()[1]
	must.Eq(t, "300000 MB/s", attribute(t, g, "nvlink_bandwidth"))
}

func TestAttributesOfMIG(t *testing.T) {
	r := newHost(t, "mig-a100", inventory.GroupByNode)
	must.Len(t, 2, r.groups())
	g := r.groups()[1]
	must.Eq(t, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", g.Name)
	must.Len(t, 7, g.Devices)
	var instances []string
	for i := range 7 {
		instances = append(instances, fmt.Sprintf("MIG-f4000000-0000-5000-8000-00000000000%d", i))
	}
	expect(t, g, map[string]string{
		"memory": "4864 MiB", "power": "400 W", "bar1": "65536 MiB", "driver_version": "535.161.08",
		"cores_clock": "1410 MHz", "memory_clock": "1215 MHz", "pci_bandwidth": "32768 MB/s",
		"display_state": "Disabled", "persistence_mode": "Enabled",
		"uuid": strings.Join(instances, ","), "architecture": "ampere", "cuda_compute_capability": "8",
		"cuda_driver_version": "12.2", "nvlink_links": "0", "nvswitch": "false", "island": "nvlink0",
		"island_size": "1", "islands": "2", "numa_node": "0", "numa_nodes": "numa0", "pcie_gen": "4",
		"pcie_root": "pci0000:00", "pcie_switch": "0000:f0:00.0", "pcie_width": "16", "p2p": "false",
		"mig_profile": "1g.5gb", "mig_parent": r.hw.UUIDs()[0],
		"memory_total": "34048 MiB", "ecc": "true", "healthy": "7", "topology": "7;21xPIX",
	})
}

func TestNoGPUs(t *testing.T) {
	must.SliceEmpty(t, newHost(t, "none", inventory.GroupByNode).groups())
}

func TestPCIAddress(t *testing.T) {
	g := newHost(t, "one-t4", inventory.GroupByNode).groups()[0]
	must.Eq(t, "0000:00:1e.0", g.Devices[0].HwLocality.PciBusID)
}

// Every attribute is documented.
func TestAttributesAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../docs/reference/device.md")
	must.NoError(t, err)
	for _, machine := range []string{"hgx-h100", "nvl72-tray", "mig-a100", "one-t4"} {
		for _, g := range newHost(t, machine, inventory.GroupByNode).groups() {
			for name := range g.Attributes {
				must.StrContains(t, string(docs), "`"+name+"`")
			}
		}
	}
}

// expect compares all attributes of a group.
func expect(t *testing.T, g *device.DeviceGroup, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range g.Attributes {
		got[name] = attribute(t, g, name)
	}
	must.Eq(t, want, got)
	must.NoError(t, g.Validate())
}

func TestGroupBy(t *testing.T) {
	for name, tc := range map[string]struct {
		machine string
		by      inventory.GroupBy
		want    map[string][]int
	}{
		"node": {"two-boards-a100", inventory.GroupByNode, map[string][]int{
			"NVIDIA A100-SXM4-40GB": {0, 1, 2, 3, 4, 5, 6, 7},
		}},
		"islands of four": {"two-boards-a100", inventory.GroupByNVLink, map[string][]int{
			"NVIDIA A100-SXM4-40GB nvlink0": {0, 1, 2, 3},
			"NVIDIA A100-SXM4-40GB nvlink1": {4, 5, 6, 7},
		}},
		"one island": {"hgx-h100", inventory.GroupByNVLink, map[string][]int{
			"NVIDIA H100 80GB HBM3 nvlink0": {0, 1, 2, 3, 4, 5, 6, 7},
		}},
		"NUMA": {"hgx-h100", inventory.GroupByNUMA, map[string][]int{
			"NVIDIA H100 80GB HBM3 numa0": {0, 1, 2, 3},
			"NVIDIA H100 80GB HBM3 numa1": {4, 5, 6, 7},
		}},
		"PCIe switches": {"pcie-l40s", inventory.GroupByPCIe, map[string][]int{
			"NVIDIA L40S pcie0": {0, 1}, "NVIDIA L40S pcie1": {2, 3},
			"NVIDIA L40S pcie2": {4, 5}, "NVIDIA L40S pcie3": {6, 7},
		}},
		"PCIe, no switch":                  {"one-t4", inventory.GroupByPCIe, map[string][]int{"Tesla T4 pcie0": {0}}},
		"without NVLink each is an island": {"one-t4", inventory.GroupByNVLink, map[string][]int{"Tesla T4 nvlink0": {0}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHost(t, tc.machine, tc.by)
			got := map[string][]int{}
			for _, g := range r.groups() {
				for _, d := range g.Devices {
					got[g.Name] = append(got[g.Name], slices.Index(r.hw.UUIDs(), d.ID))
				}
				slices.Sort(got[g.Name])
			}
			must.Eq(t, tc.want, got)
		})
	}
}

// Nomad parses a literal in a jobspec and compares it with the attribute.
func TestConstraintsWithUnits(t *testing.T) {
	g := newHost(t, "hgx-h100", inventory.GroupByNode).groups()[0]
	for name, tc := range map[string]struct {
		attribute, literal string
		want               int
	}{
		"memory in GiB":        {"memory", "40 GiB", 1},
		"memory in GiB, less":  {"memory", "80 GiB", -1},
		"NVLink in GB/s":       {"nvlink_bandwidth", "400 GB/s", 1},
		"power in kW":          {"power", "1 kW", -1},
		"compute capability":   {"cuda_compute_capability", "8.6", 1},
		"compute, equal":       {"cuda_compute_capability", "9.0", 0},
		"CUDA":                 {"cuda_driver_version", "12.2", 1},
		"a number":             {"island_size", "8", 0},
		"a bool":               {"nvswitch", "true", 0},
		"a text":               {"architecture", "hopper", 0},
		"a text with a number": {"island", "nvlink0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := g.Attributes[tc.attribute].Compare(structs.ParseAttribute(tc.literal))
			must.True(t, ok)
			must.Eq(t, tc.want, got)
		})
	}
}

// Two different GPUs of one model are described by the capabilities that both have.
func TestUnequalGPUsOfOneModel(t *testing.T) {
	r := newHost(t, "hgx-h100", inventory.GroupByNode)
	r.hw.Set(3, "memory", "40000")
	r.hw.Set(4, "persistence", "0")
	r.hw.Set(5, "ecc", "0")
	g := r.groups()[0]
	must.Eq(t, "40000 MiB", attribute(t, g, "memory"))
	must.Eq(t, "", attribute(t, g, "persistence_mode"))
	must.Eq(t, "", attribute(t, g, "ecc"))
}

// A rate or version that the driver does not report is absent, because a constraint
// with < would match 0.
func TestUnknownNVLinkRate(t *testing.T) {
	r := newHost(t, "hgx-h100", inventory.GroupByNode)
	r.hw.Set(3, "nvlink_mbps", "0")
	r.hw.Set(3, "nvlink_version", "0")
	g := r.groups()[0]
	must.Eq(t, "18", attribute(t, g, "nvlink_links"))
	must.Eq(t, "", attribute(t, g, "nvlink_bandwidth"))
	must.Eq(t, "", attribute(t, g, "nvlink_version"))
}

// If a group is an island, an isolated GPU does not count for its attributes.
func TestIsolatedGPU(t *testing.T) {
	r := newHost(t, "two-boards-a100", inventory.GroupByNVLink)
	before := r.groups()
	r.hw.Set(0, "nolinks", "0")
	after := r.groups()
	must.Eq(t, before[0].Name, after[0].Name)
	must.Len(t, 4, after[0].Devices)
	must.Eq(t, "3", attribute(t, after[0], "island_size"))
	must.Eq(t, "12", attribute(t, after[0], "nvlink_links"))
	must.Eq(t, "4", attribute(t, after[1], "island_size"))
}

func TestIgnoredGPUs(t *testing.T) {
	r := newHost(t, "mig-a100", inventory.GroupByNode,
		"GPU-f4000000-0000-4000-8000-000000000001", "MIG-f4000000-0000-5000-8000-000000000002")
	must.Len(t, 1, r.groups())
	must.Len(t, 6, r.groups()[0].Devices)
}
