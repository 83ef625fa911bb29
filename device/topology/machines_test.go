// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// Rates of one NVLink in one direction, in MB/s.
const (
	nvlink2 = 25_781
	nvlink4 = 26_562
)

// draw builds a machine from its link matrix as nvidia-smi topo -m prints it,
// one row per line. NV<n> becomes n ports between the two GPUs, NV<n>s becomes
// n ports of each into a switch.
func draw(t testing.TB, mbps int, drawing string) *Matrix {
	t.Helper()
	var cells [][]string
	for _, line := range strings.Split(strings.TrimSpace(drawing), "\n") {
		cells = append(cells, strings.Fields(line))
	}
	gpus := make([]GPU, len(cells))
	pairs := map[[2]int]Pair{}
	for i := range gpus {
		gpus[i].Bus = bus(i)
	}
	for i, row := range cells {
		must.Len(t, len(cells), row, must.Sprintf("row %d", i))
		for j, cell := range row {
			must.Eq(t, cell, cells[j][i], must.Sprintf("drawing is not symmetric at %d,%d", i, j))
			if i == j {
				continue
			}
			l, err := parseLink(cell)
			must.NoError(t, err)
			switch {
			case l.Switched && len(gpus[i].Ports) == 0:
				for range l.NVLinks {
					gpus[i].Ports = append(gpus[i].Ports, Port{Switch: true, MBps: mbps})
				}
			case !l.Switched:
				for range l.NVLinks {
					gpus[i].Ports = append(gpus[i].Ports, Port{Remote: bus(j), MBps: mbps})
				}
			}
			p := Pair{Path: l.Path, Peer: l.Path != PathSYS}
			if l.NVLinks > 0 {
				p = Pair{Path: PathSYS, Peer: true}
			}
			pairs[[2]int{i, j}] = p
		}
	}
	return New(gpus, func(i, j int) Pair { return pairs[[2]int{i, j}] })
}

func bus(i int) string { return fmt.Sprintf("0000:%02x:00.0", 16+i) }

func hgxH100(t testing.TB) *Matrix {
	var b strings.Builder
	for i := range 8 {
		for j := range 8 {
			if i == j {
				b.WriteString("? ")
			} else {
				b.WriteString("NV18s ")
			}
		}
		b.WriteString("\n")
	}
	return draw(t, nvlink4, b.String())
}

// dgx1V returns the hybrid cube mesh of eight V100: two boards of four, all joined
// on a board, and one partner on the other.
func dgx1V(t testing.TB) *Matrix {
	return draw(t, nvlink2, `
		?   NV1 NV1 NV2 NV2 SYS SYS SYS
		NV1 ?   NV2 NV1 SYS NV2 SYS SYS
		NV1 NV2 ?   NV2 SYS SYS NV1 SYS
		NV2 NV1 NV2 ?   SYS SYS SYS NV1
		NV2 SYS SYS SYS ?   NV1 NV1 NV2
		SYS NV2 SYS SYS NV1 ?   NV2 NV1
		SYS SYS NV1 SYS NV1 NV2 ?   NV2
		SYS SYS SYS NV1 NV2 NV1 NV2 ?`)
}

// bridged has two pairs of GPUs with a bridge over each, one pair per socket.
func bridged(t testing.TB) *Matrix {
	return draw(t, nvlink2, `
		?   NV4 SYS SYS
		NV4 ?   SYS SYS
		SYS SYS ?   NV4
		SYS SYS NV4 ?`)
}

// twoSockets has no NVLink: two PCIe switches with two GPUs on each socket.
func twoSockets(t testing.TB) *Matrix {
	return draw(t, 0, `
		?    PIX  NODE NODE SYS  SYS  SYS  SYS
		PIX  ?    NODE NODE SYS  SYS  SYS  SYS
		NODE NODE ?    PXB  SYS  SYS  SYS  SYS
		NODE NODE PXB  ?    SYS  SYS  SYS  SYS
		SYS  SYS  SYS  SYS  ?    PIX  NODE NODE
		SYS  SYS  SYS  SYS  PIX  ?    NODE NODE
		SYS  SYS  SYS  SYS  NODE NODE ?    PHB
		SYS  SYS  SYS  SYS  NODE NODE PHB  ?`)
}

// genMachine draws machines of up to nine GPUs that no factory builds.
func genMachine(rt *rapid.T) *Matrix {
	n := rapid.IntRange(0, 9).Draw(rt, "gpus")
	fabrics := []string{"", "a/1", "a/2"}
	gpus := make([]GPU, n)
	pairs := map[[2]int]Pair{}
	for i := range gpus {
		gpus[i].Bus = bus(i)
		gpus[i].Fabric = rapid.SampledFrom(fabrics).Draw(rt, "fabric")
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 2, 4}).Draw(rt, "switch ports") {
			gpus[i].Ports = append(gpus[i].Ports, Port{Switch: true, MBps: nvlink4})
		}
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(rt, "direct") {
				gpus[i].Ports = append(gpus[i].Ports, Port{Remote: bus(j), MBps: nvlink2})
				gpus[j].Ports = append(gpus[j].Ports, Port{Remote: bus(i), MBps: nvlink2})
			}
			pairs[[2]int{i, j}] = Pair{
				Path:     Path(rapid.IntRange(int(PathUnknown), int(PathPIX)).Draw(rt, "path")),
				Peer:     rapid.Bool().Draw(rt, "peer"),
				NoNVLink: rapid.IntRange(0, 9).Draw(rt, "denied") == 0,
			}
		}
	}
	return New(gpus, func(i, j int) Pair { return pairs[[2]int{i, j}] })
}

// subsetsOf returns all subsets of k of the set, by counting in binary, which is
// not how the package does it.
func subsetsOf(set []int, k int) [][]int {
	var all [][]int
	for bits := range 1 << len(set) {
		var sub []int
		for b, i := range set {
			if bits&(1<<b) != 0 {
				sub = append(sub, i)
			}
		}
		if len(sub) == k {
			all = append(all, sub)
		}
	}
	return all
}

func without(set, gone []int) []int {
	return slices.DeleteFunc(slices.Clone(set), func(i int) bool { return slices.Contains(gone, i) })
}
