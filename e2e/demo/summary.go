// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// fixedSizes are the sizes that FIFO is tried with: a third of the cluster for each
// job, half of it, and all.
var fixedSizes = []int{slots / 3, slots / 2, slots}

// summary prints what the records prove, and returns an error if that is not what
// was promised.
func (s *show) summary(ctx context.Context) error {
	var all []measurement
	var wrong error
	for _, j := range s.jobs {
		m, err := measure(j.name, j.submitted, j.record)
		all, wrong = append(all, m), errors.Join(wrong, err)
	}
	compared, err := compare(ctx, all)
	s.screen.write(`
  From the training records:

%s
  From submission to completion (JCT), compared with FIFO with a fixed number of workers for each job. FIFO is
  simulated from the step times measured here, in its favour where a size was not measured:

%s`, table(measured(all)), table(compared))
	if err = errors.Join(wrong, err); err == nil {
		s.screen.write(`
  Every step follows the one before, every epoch used each of its %d samples exactly once,
  and one process was rank 0 of a job throughout: nothing was restarted.
`, epochSteps*globalBatch)
	}
	return err
}

// measured returns the rows of the measurements.
func measured(all []measurement) [][]string {
	rows := [][]string{{"job", "steps", "lost", "resizes", "no rank trained for (median, longest)", "median time of a step"}}
	for _, m := range all {
		gap := "–"
		if len(m.gaps) > 0 {
			gap = seconds(median(slices.Clone(m.gaps))) + ", " + seconds(slices.Max(m.gaps))
		}
		rows = append(rows, []string{m.name, strconv.Itoa(m.steps), strconv.Itoa(m.lost), strconv.Itoa(len(m.gaps)), gap, m.steptimes()})
	}
	return rows
}

// compare returns the rows of JCTs, with their means.
func compare(ctx context.Context, all []measurement) ([][]string, error) {
	rows := [][]string{{"job", "kolo, measured"}}
	column := func(jct []time.Duration) {
		var sum time.Duration
		for i, d := range jct {
			sum += d
			rows[i+1] = append(rows[i+1], fmt.Sprintf("%.0f s", d.Seconds()))
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], fmt.Sprintf("%.0f s", sum.Seconds()/float64(len(jct))))
	}
	var ours []time.Duration
	for _, m := range all {
		rows = append(rows, []string{m.name})
		ours = append(ours, m.jct)
	}
	rows = append(rows, []string{"mean"})
	column(ours)
	for _, n := range fixedSizes {
		jct, err := fifo(ctx, all, n)
		if err != nil {
			return nil, err
		}
		rows[0] = append(rows[0], fmt.Sprintf("FIFO with %d, simulated", n))
		column(jct)
	}
	return rows, nil
}

// table aligns rows.
func table(rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = io.WriteString(w, "  "+strings.Join(row, "\t")+"\n") // writing to memory
	}
	_ = w.Flush()
	return out.String()
}

// steptimes returns the step times by number of ranks.
func (m *measurement) steptimes() string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(m.stepTime)) {
		parts = append(parts, fmt.Sprintf("%d: %.2f s", n, m.stepTime[n].Seconds()))
	}
	return strings.Join(parts, ", ")
}
