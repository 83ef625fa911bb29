// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// Report is what the topo command prints.
type Report struct {
	Driver string  `json:"driver"`
	CUDA   float64 `json:"cuda"`
	// Topology is the matrix as the attribute of that name has it.
	Topology string      `json:"topology"`
	GPUs     []ReportGPU `json:"gpus"`
	Links    [][]string  `json:"links"`
	Islands  []ReportSet `json:"islands"`
	Unread   []string    `json:"unread,omitempty"`
	matrix   *topology.Matrix
}

// ReportGPU is one GPU or MIG instance of a report.
type ReportGPU struct {
	// Index is the GPU's number in NVML and nvidia-smi; instances have that of
	// their GPU.
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Bus    string `json:"bus"`
	Minor  *int   `json:"minor"`
	NUMA   int    `json:"numa"`
	Switch string `json:"pcie_switch"`
	Root   string `json:"pcie_root"`
	// NVLinks are the links that are up, NVLinkMBps what they carry together, one
	// way.
	NVLinks    int    `json:"nvlinks"`
	NVLinkMBps int    `json:"nvlink_mbps"`
	Island     string `json:"island"`
	// Profile is the shape of a MIG instance; empty for a whole GPU.
	Profile string `json:"mig_profile,omitempty"`
	// Groups are the names of its group, by the value of group_by.
	Groups map[GroupBy]string `json:"groups"`
	// label and switchName are for people.
	label, switchName string
}

// ReportSet is an NVLink island of a report.
type ReportSet struct {
	Name string `json:"name"`
	// GPUs are places in the report's list of them.
	GPUs []int `json:"gpus"`
	// BisectionMBps is the NVLink bandwidth between its halves, one way.
	BisectionMBps int `json:"bisection_mbps"`
}

// Inspect reads the machine once. Root is put before /run, where the plugin keeps
// the numbers of islands and switches.
func Inspect(lib nvml.Library, root string) (Report, error) {
	if err := lib.Open(); err != nil {
		return Report{}, fmt.Errorf("opening NVML: %w", err)
	}
	defer lib.Close() //nolint:errcheck // the process ends soon
	m, err := readMachine(lib, machine{}, nil)
	if err != nil {
		return Report{}, fmt.Errorf("reading the GPUs: %w", err)
	}
	// The numbers are those that the plugin uses, where it runs; what is numbered
	// here is not kept.
	p := readPlaces(root, hclog.NewNullLogger())
	p.file = ""
	l := newLayout(&m, GroupByNode, p)
	r := Report{
		Driver: m.driver.Version, CUDA: m.driver.CUDA, Topology: l.matrix.Encode(), matrix: l.matrix,
		GPUs: []ReportGPU{}, Links: [][]string{}, Islands: []ReportSet{},
	}
	set := map[string]int{}
	for i, u := range l.units {
		f := u.card.facts
		r.GPUs = append(r.GPUs, ReportGPU{
			Index: u.card.index, UUID: u.id(), Name: u.product(), Bus: f.Bus, Minor: f.Minor, NUMA: f.NUMA,
			Switch: f.Switch, Root: f.Root,
			Island: l.islandName(i), Groups: map[GroupBy]string{}, label: fmt.Sprintf("GPU%d", u.card.index), switchName: l.switchName(i),
		})
		for _, by := range groupings {
			l.by = by
			r.GPUs[i].Groups[by] = l.groupName(i)
		}
		if in := u.instance; in != nil {
			r.GPUs[i].Profile = in.Profile
			r.GPUs[i].label = fmt.Sprintf("MIG%d/%d/%d", u.card.index, in.GI, in.CI)
		}
		r.GPUs[i].NVLinks, r.GPUs[i].NVLinkMBps, _ = u.nvlinks()
		row := make([]string, len(l.units))
		for j := range l.units {
			row[j] = l.matrix.Link(i, j).String()
		}
		row[i] = "X"
		r.Links = append(r.Links, row)
		n, met := set[l.islandName(i)]
		if !met {
			n = len(r.Islands)
			set[l.islandName(i)] = n
			r.Islands = append(r.Islands, ReportSet{Name: l.islandName(i)})
		}
		r.Islands[n].GPUs = append(r.Islands[n].GPUs, i)
	}
	for i := range r.Islands {
		r.Islands[i].BisectionMBps, _ = l.matrix.Bisection(r.Islands[i].GPUs)
	}
	for _, i := range slices.Sorted(maps.Keys(m.unread)) {
		err := m.unread[i]
		r.Unread = append(r.Unread, err.Error())
	}
	return r, nil
}

// Write prints the report for people, the matrix as nvidia-smi topo -m does.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	if len(r.GPUs) > 0 {
		if err := r.writeMatrix(&b); err != nil {
			return err
		}
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
	if err := r.matrix.WriteTable(b, rows); err != nil {
		return err
	}
	fmt.Fprintf(b, "\n%s\nIslands, with the PCIe switch (or root) of each GPU:\n\n", topology.Legend)
	wide := 0
	for _, g := range r.GPUs {
		wide = max(wide, len(g.label))
	}
	for _, s := range r.Islands {
		fmt.Fprintf(b, "  %-9s of %d", s.Name, len(s.GPUs))
		if r.GPUs[s.GPUs[0]].Profile != "" {
			b.WriteString(" instances of one GPU, which have no NVLink (MIG)")
		}
		if s.BisectionMBps > 0 {
			fmt.Fprintf(b, ", %d GB/s each way between its halves", s.BisectionMBps/1000)
		}
		b.WriteString("\n")
		for _, i := range s.GPUs {
			g := r.GPUs[i]
			fmt.Fprintf(b, "    %-*s  %s  %s  %s, %s\n", wide, g.label, g.UUID, g.Bus, g.Name, g.switchName)
		}
	}
	return nil
}
