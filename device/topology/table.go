// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Row holds the texts in a GPU's row of the table, besides its links.
type Row struct {
	// Label names the GPU in the header and at the start of its line.
	Label string
	// NUMA is the NUMA node; -1 if unknown.
	NUMA int
	// Island names the island.
	Island string
}

// Legend explains the names in the table, ordered by distance.
const Legend = `Legend:

  X    = Self
  SYS  = PCIe and the interconnect between NUMA nodes
  NODE = PCIe and the interconnect between host bridges of one NUMA node
  PHB  = PCIe and one host bridge (usually the CPU)
  PXB  = several PCIe switches, no host bridge
  PIX  = one PCIe switch at most
  NV#  = # NVLinks (through NVSwitch where the island is marked so)
`

// WriteTable prints the matrix as nvidia-smi topo -m does, with the NUMA node and
// the island of each GPU.
func (m *Matrix) WriteTable(w io.Writer, rows []Row) error {
	if len(rows) != m.n {
		return fmt.Errorf("%d rows for %d GPUs", len(rows), m.n)
	}
	// The tabwriter keeps an error of w until Flush.
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		_, _ = fmt.Fprintf(t, "\t%s", r.Label)
	}
	_, _ = fmt.Fprint(t, "\tNUMA Affinity\tIsland\n")
	for i, r := range rows {
		_, _ = fmt.Fprint(t, r.Label)
		switched := false
		for j := range m.n {
			l := m.Link(i, j)
			switched = switched || l.Switched
			// nvidia-smi has no mark for a switch.
			l.Switched = false
			cell := l.String()
			if i == j {
				cell = "X"
			}
			_, _ = fmt.Fprintf(t, "\t%s", cell)
		}
		numa := "N/A"
		if r.NUMA >= 0 {
			numa = strconv.Itoa(r.NUMA)
		}
		island := r.Island
		if switched {
			island += " (NVSwitch)"
		}
		_, _ = fmt.Fprintf(t, "\t%s\t%s\n", numa, island)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the link matrix: %w", err)
	}
	return nil
}
