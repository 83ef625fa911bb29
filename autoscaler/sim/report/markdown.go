// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// Markdown writes tables for a document: the average JCT over all loads and resize costs,
// and then all metrics and the JCT of each workload at the first load and cost.
func Markdown(w io.Writer, c *sim.Comparison) error {
	all := groups(c)
	if len(all) == 0 {
		return errors.New("report: nothing was simulated")
	}
	var b strings.Builder
	if len(all) > 1 {
		pivot(&b, all)
	}
	first := all[0]
	fmt.Fprintf(&b, "All metrics at load %g, resize cost %s:\n\n", first[0].Load, first[0].Cost)
	rows := grid(first, shown(c))
	perWorkload := len(c.Workloads) > 1
	if perWorkload {
		rows[0] = append(rows[0], "avg JCT of each workload s")
	}
	header(&b, rows[0])
	for i, row := range rows[1:] {
		row[0] = code(row[0])
		if perWorkload {
			var each []string
			for _, runs := range first[i].Runs {
				each = append(each, fmt.Sprintf("%.0f", runs[0].JCT.Mean))
			}
			row = append(row, strings.Join(each, ", "))
		}
		line(&b, row)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// pivot writes the average JCT with one column for each load and resize cost.
func pivot(b *strings.Builder, all [][]sim.Cell) {
	jct := sim.Metrics()[0]
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y []sim.Cell) int {
		return cmp.Or(cmp.Compare(x[0].Load, y[0].Load), cmp.Compare(x[0].Cost.Constant, y[0].Cost.Constant))
	})
	b.WriteString("Average JCT in seconds, by load and resize cost:\n\n")
	head := []string{"policy", "information"}
	for _, g := range all {
		head = append(head, fmt.Sprintf("%g × %s", g[0].Load, g[0].Cost))
	}
	header(b, head)
	for i := range all[0] {
		row := []string{code(all[0][i].Policy), all[0][i].Class}
		for _, g := range all {
			row = append(row, format(g[i].Estimate(jct)))
		}
		line(b, row)
	}
	b.WriteString("\n")
}

func header(b *strings.Builder, cells []string) {
	line(b, cells)
	b.WriteString("|---|---|" + strings.Repeat("--:|", len(cells)-2) + "\n")
}

func line(b *strings.Builder, cells []string) {
	for i, s := range cells {
		cells[i] = strings.ReplaceAll(s, "|", `\|`)
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func code(s string) string { return "`" + s + "`" }
