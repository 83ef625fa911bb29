// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// Heading returns a line that describes the simulated workload and cluster.
func Heading(c *sim.Comparison) string {
	s := fmt.Sprintf("%s on %s with %s", strings.Join(c.Workloads, ", "), plural(c.Nodes, "node"), plural(c.GPUs, "GPU"))
	if c.Tick > 0 {
		s += fmt.Sprintf(", in ticks of %g s", c.Tick)
	}
	if c.Seeds > 1 {
		s += fmt.Sprintf(", %d seeds (± is a 95 %% confidence interval)", c.Seeds)
	}
	return s
}

// Table writes a table for each load and resize cost, for a terminal.
func Table(w io.Writer, c *sim.Comparison) error {
	metrics := shown(c)
	for _, g := range groups(c) {
		if len(c.Cells) > len(g) {
			if _, err := fmt.Fprintf(w, "load %g, resize cost %s\n", g[0].Load, g[0].Cost); err != nil {
				return err
			}
		}
		if err := align(w, grid(g, metrics)); err != nil {
			return err
		}
	}
	return nil
}

// grid returns the metrics of each cell below their titles.
func grid(cells []sim.Cell, metrics []sim.Metric) [][]string {
	rows := [][]string{{"policy", "information"}}
	for _, m := range metrics {
		rows[0] = append(rows[0], title(m))
	}
	for i := range cells {
		row := []string{cells[i].Policy, cells[i].Class}
		for _, m := range metrics {
			row = append(row, format(cells[i].Estimate(m)))
		}
		rows = append(rows, row)
	}
	return rows
}

// shown returns the metrics that mean something in this comparison: deadlines and
// unfinished jobs only if there are any.
func shown(c *sim.Comparison) []sim.Metric {
	deadlines := some(c, func(s *sim.Summary) bool { return s.Deadlines > 0 })
	unfinished := some(c, func(s *sim.Summary) bool { return s.Unfinished > 0 })
	var out []sim.Metric
	for _, m := range columns(c) {
		switch {
		case m.Key == "missed_deadlines" && !deadlines, m.Key == "unfinished" && !unfinished:
		default:
			out = append(out, m)
		}
	}
	return out
}

// groups splits the cells by load and resize cost.
func groups(c *sim.Comparison) [][]sim.Cell {
	var out [][]sim.Cell
	for from := 0; from < len(c.Cells); {
		to := from + 1
		for to < len(c.Cells) && c.Cells[to].Load == c.Cells[from].Load && c.Cells[to].Cost.Equal(c.Cells[from].Cost) {
			to++
		}
		out = append(out, c.Cells[from:to])
		from = to
	}
	return out
}

func title(m sim.Metric) string {
	if m.Unit == "" {
		return m.Title
	}
	return m.Title + " " + m.Unit
}

// format returns an estimate with a suitable number of digits.
func format(e sim.Estimate) string {
	s := number(e.Mean)
	if e.CI > 0 {
		s += " ±" + number(e.CI)
	}
	return s
}

func number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// align writes rows in columns: the first two to the left, numbers to the right. It counts
// characters, not bytes, since ± is not ASCII.
func align(w io.Writer, rows [][]string) error {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, s := range r {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		for i, s := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			switch {
			case i == len(r)-1:
				b.WriteString(pad + s + "\n")
			case i < 2:
				b.WriteString(s + pad + "  ")
			default:
				b.WriteString(pad + s + "  ")
			}
		}
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}
