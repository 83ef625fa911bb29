// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// Queues writes a table with a line for each policy and queue, averaged over runs. It
// follows the table that Table writes. Queues writes nothing if there are no queues.
func Queues(w io.Writer, c *sim.Comparison) error {
	for _, g := range groups(c) {
		rows := [][]string{{"policy", "queue", "jobs", "avg JCT s", "avg wait s", "GPU-hours", "of entitled %", "GPUs taken back", "evictions"}}
		for i := range g {
			for _, q := range queuesOf(&g[i]) {
				rows = append(rows, append([]string{g[i].Policy, q.name}, q.columns()...))
			}
		}
		if len(rows) == 1 {
			continue
		}
		if len(c.Cells) > len(g) {
			if _, err := fmt.Fprintf(w, "queues at load %g, resize cost %s\n", g[0].Load, g[0].Cost); err != nil {
				return err
			}
		}
		if err := align(w, rows); err != nil {
			return err
		}
	}
	return nil
}

// queueMeans are the sums of a queue over the runs that had jobs for it.
type queueMeans struct {
	name                                                  string
	runs                                                  float64
	jobs, jct, wait, used, entitled, takenBack, evictions float64
}

// queuesOf returns the queues of a cell by name.
func queuesOf(c *sim.Cell) []queueMeans {
	var out []queueMeans
	for _, runs := range c.Runs {
		for s := range runs {
			for i := range runs[s].Queues {
				q := &runs[s].Queues[i]
				at, found := slices.BinarySearchFunc(out, q.Name, func(m queueMeans, name string) int { return cmp.Compare(m.name, name) })
				if !found {
					out = slices.Insert(out, at, queueMeans{name: q.Name})
				}
				m := &out[at]
				m.runs++
				m.jobs, m.jct, m.wait = m.jobs+float64(q.Jobs), m.jct+q.JCT, m.wait+q.Wait
				m.used, m.entitled = m.used+q.Used, m.entitled+q.Entitled
				m.takenBack, m.evictions = m.takenBack+float64(q.TakenBack), m.evictions+float64(q.Evictions)
			}
		}
	}
	return out
}

func (m *queueMeans) columns() []string {
	share := 0.0
	if m.entitled > 0 {
		share = 100 * m.used / m.entitled
	}
	var out []string
	for _, v := range []float64{m.jobs / m.runs, m.jct / m.runs, m.wait / m.runs, m.used / m.runs / 3600, share, m.takenBack / m.runs, m.evictions / m.runs} {
		out = append(out, number(v))
	}
	return out
}
