// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// Report holds the content of the topo command's output.
type Report struct {
	Driver string  `json:"driver"`
	CUDA   float64 `json:"cuda"`
	// Topology is the matrix in the format of the device attribute with that name.
	Topology string     `json:"topology"`
	GPUs     []GPU      `json:"gpus"`
	Links    [][]string `json:"links"`
	Islands  []Island   `json:"islands"`
	Unread   []string   `json:"unread,omitempty"`
	matrix   *topology.Matrix
}

// GPU is one GPU or MIG instance of a report.
type GPU struct {
	// Index is the GPU's number in NVML and nvidia-smi. An instance has the number
	// of its GPU.
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Bus    string `json:"bus"`
	Minor  *int   `json:"minor"`
	NUMA   int    `json:"numa"`
	Switch string `json:"pcie_switch"`
	Root   string `json:"pcie_root"`
	// NVLinks is the number of links that are up, and NVLinkMBps their total
	// bandwidth in one direction.
	NVLinks    int    `json:"nvlinks"`
	NVLinkMBps int    `json:"nvlink_mbps"`
	Island     string `json:"island"`
	// Profile is the shape of a MIG instance; empty for a whole GPU.
	Profile string `json:"mig_profile,omitempty"`
	// Groups holds the name of its group for each value of group_by.
	Groups map[inventory.GroupBy]string `json:"groups"`
	// label and switchName are texts for people.
	label, switchName string
}

// Island is an NVLink island of a report.
type Island struct {
	Name string `json:"name"`
	// GPUs are positions in the report's list of GPUs.
	GPUs []int `json:"gpus"`
	// BisectionMBps is the NVLink bandwidth between its halves, in one direction.
	BisectionMBps int `json:"bisection_mbps"`
}

// Topology reads the machine once and returns a report. root is prepended to /run,
// where the plugin keeps the IDs of islands and switches. If Topology has to
// assign new IDs, it does not store them.
func Topology(lib nvml.Library, root string) (Report, error) {
	if err := lib.Open(); err != nil {
		return Report{}, fmt.Errorf("opening NVML: %w", err)
	}
	defer lib.Close() //nolint:errcheck // the process ends soon
	inv, err := inventory.Read(lib, inventory.Inventory{}, nil)
	if err != nil {
		return Report{}, fmt.Errorf("reading the GPUs: %w", err)
	}
	index := map[string]int{}
	for _, g := range inv.GPUs {
		index[g.Facts.UUID] = g.Index
	}
	l := inventory.NewLayout(&inv, inventory.GroupByNode, inventory.ReadStableIDs(root))
	r := Report{
		Driver: inv.Driver.Version, CUDA: inv.Driver.CUDA, Topology: l.Matrix.Encode(), matrix: l.Matrix,
		GPUs: []GPU{}, Links: [][]string{}, Islands: islands(l),
	}
	for i, u := range l.Units {
		r.GPUs = append(r.GPUs, newGPU(l, i, index[u.GPU.UUID]))
		row := make([]string, len(l.Units))
		for j := range l.Units {
			row[j] = l.Matrix.Link(i, j).String()
		}
		row[i] = "X"
		r.Links = append(r.Links, row)
	}
	for _, i := range slices.Sorted(maps.Keys(inv.Unreadable)) {
		r.Unread = append(r.Unread, inv.Unreadable[i].Error())
	}
	return r, nil
}

// newGPU describes unit i of a layout.
func newGPU(l inventory.Layout, i, index int) GPU {
	u := l.Units[i]
	g := GPU{
		Index: index, UUID: u.ID(), Name: u.Product(), Bus: u.GPU.Bus, Minor: u.GPU.Minor, NUMA: u.GPU.NUMA,
		Switch: u.GPU.Switch, Root: u.GPU.Root, Island: l.IslandName(i), Groups: map[inventory.GroupBy]string{},
		label: fmt.Sprintf("GPU%d", index), switchName: l.SwitchName(i),
	}
	g.NVLinks, g.NVLinkMBps, _ = u.NVLinks()
	for _, l.By = range inventory.Groupings() {
		g.Groups[l.By] = l.GroupName(i)
	}
	if in := u.Instance; in != nil {
		g.Profile = in.Profile
		g.label = fmt.Sprintf("MIG%d/%d/%d", index, in.GI, in.CI)
	}
	return g
}

// islands returns the islands in the order of their first unit.
func islands(l inventory.Layout) []Island {
	all := []Island{}
	for i := range l.Units {
		name := l.IslandName(i)
		n := slices.IndexFunc(all, func(is Island) bool { return is.Name == name })
		if n < 0 {
			n = len(all)
			all = append(all, Island{Name: name})
		}
		all[n].GPUs = append(all[n].GPUs, i)
	}
	for i := range all {
		all[i].BisectionMBps, _ = l.Matrix.Bisection(all[i].GPUs)
	}
	return all
}

// Write prints the report as text, with the matrix in the format of nvidia-smi
// topo -m.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	if len(r.GPUs) > 0 {
		if err := r.writeMatrix(&b); err != nil {
			return err
		}
		r.writeIslands(&b)
	} else {
		fmt.Fprintf(&b, "Driver %s lists no GPU that can be used.\n", r.Driver)
	}
	for _, u := range r.Unread {
		fmt.Fprintf(&b, "\nunreadable: %s\n", u)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	return nil
}

func (r Report) writeMatrix(b *strings.Builder) error {
	rows := make([]topology.Row, len(r.GPUs))
	for i, g := range r.GPUs {
		rows[i] = topology.Row{Label: g.label, NUMA: g.NUMA, Island: g.Island}
	}
	return r.matrix.WriteTable(b, rows)
}

func (r Report) writeIslands(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\nIslands, with the PCIe switch (or root) of each GPU:\n\n", topology.Legend)
	width := 0
	for _, g := range r.GPUs {
		width = max(width, len(g.label))
	}
	for _, island := range r.Islands {
		fmt.Fprintf(b, "  %-9s of %d", island.Name, len(island.GPUs))
		if r.GPUs[island.GPUs[0]].Profile != "" {
			b.WriteString(" instances of one GPU, which have no NVLink (MIG)")
		}
		if island.BisectionMBps > 0 {
			fmt.Fprintf(b, ", %d GB/s each way between its halves", island.BisectionMBps/1000)
		}
		b.WriteString("\n")
		for _, i := range island.GPUs {
			g := r.GPUs[i]
			fmt.Fprintf(b, "    %-*s  %s  %s  %s, %s\n", width, g.label, g.UUID, g.Bus, g.Name, g.switchName)
		}
	}
}
