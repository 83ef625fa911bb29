// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// document is the form of the JSON report.
type document struct {
	Version   int      `json:"version"`
	Workloads []string `json:"workloads"`
	Seeds     int      `json:"seeds"`
	Nodes     int      `json:"nodes"`
	GPUs      int      `json:"gpus"`
	Tick      float64  `json:"tick_s,omitempty"`
	Cells     []cell   `json:"cells"`
}

type cell struct {
	Policy      string                  `json:"policy"`
	Information string                  `json:"information"`
	Load        float64                 `json:"load"`
	ResizeCost  *float64                `json:"resize_cost_s,omitempty"`
	BySize      map[int]float64         `json:"resize_cost_by_size,omitempty"`
	Metrics     map[string]sim.Estimate `json:"metrics"`
	Runs        []run                   `json:"runs"`
}

type run struct {
	Workload string      `json:"workload"`
	Seed     int         `json:"seed"`
	Summary  sim.Summary `json:"summary"`
}

// JSON writes the whole comparison, with a summary of each run.
func JSON(w io.Writer, c *sim.Comparison) error {
	d := document{Version: 1, Workloads: c.Workloads, Seeds: c.Seeds, Nodes: c.Nodes, GPUs: c.GPUs, Tick: c.Tick}
	for i := range c.Cells {
		from := &c.Cells[i]
		to := cell{Policy: from.Policy, Information: from.Class, Load: from.Load, Metrics: map[string]sim.Estimate{}}
		if len(from.Cost.BySize) > 0 {
			to.BySize = from.Cost.BySize
		} else {
			to.ResizeCost = &from.Cost.Constant
		}
		for _, m := range columns(c) {
			to.Metrics[m.Key] = from.Estimate(m)
		}
		for k := range from.Runs {
			for s := range from.Runs[k] {
				to.Runs = append(to.Runs, run{Workload: c.Workloads[k], Seed: s + 1, Summary: from.Runs[k][s]})
			}
		}
		d.Cells = append(d.Cells, to)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// CSV writes one line for each policy, load, resize cost, workload and seed.
func CSV(w io.Writer, c *sim.Comparison) error {
	out := csv.NewWriter(w)
	head := []string{"policy", "information", "load", "resize_cost", "workload", "seed"}
	for _, m := range columns(c) {
		head = append(head, m.Key)
	}
	rows := [][]string{head}
	for i := range c.Cells {
		cell := &c.Cells[i]
		for k := range cell.Runs {
			for s := range cell.Runs[k] {
				row := []string{cell.Policy, cell.Class, plain(cell.Load), costWord(cell.Cost), c.Workloads[k], strconv.Itoa(s + 1)}
				for _, m := range columns(c) {
					row = append(row, plain(m.Of(&cell.Runs[k][s])))
				}
				rows = append(rows, row)
			}
		}
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// JobsCSV writes one line for each job of the detailed run of each policy.
func JobsCSV(w io.Writer, c *sim.Comparison) error {
	out := csv.NewWriter(w)
	rows := [][]string{{
		"policy", "job", "app", "tenant", "submit_s", "start_s", "done_s", "ended", "jct_s", "queueing_s",
		"gpu_s", "resizes", "fairness", "deadline_s", "missed",
	}}
	for i := range c.Cells {
		cell := &c.Cells[i]
		if cell.Detail == nil {
			continue
		}
		for k := range cell.Detail.Jobs {
			j := &cell.Detail.Jobs[k]
			deadline := ""
			if j.Deadline > 0 {
				deadline = plain(j.Deadline)
			}
			rows = append(rows, []string{
				cell.Policy, j.ID, j.App, j.Tenant, plain(j.Submit), plain(j.Start), plain(j.Done), strconv.FormatBool(j.Ended),
				plain(j.JCT()), plain(j.Queueing()), plain(j.Attained), strconv.Itoa(j.Resizes), plain(j.Fairness),
				deadline, strconv.FormatBool(j.Missed()),
			})
		}
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// columns returns all metrics, except migrations if no run moved workers.
func columns(c *sim.Comparison) []sim.Metric {
	moved := some(c, func(s *sim.Summary) bool { return s.MovesPerJob > 0 })
	return slices.DeleteFunc(sim.Metrics(), func(m sim.Metric) bool { return m.Key == "migrations_per_job" && !moved })
}

// some reports whether a condition holds for any run.
func some(c *sim.Comparison, of func(*sim.Summary) bool) bool {
	for i := range c.Cells {
		for _, runs := range c.Cells[i].Runs {
			for k := range runs {
				if of(&runs[k]) {
					return true
				}
			}
		}
	}
	return false
}

// costWord returns a resize cost as one field.
func costWord(c sim.ResizeCost) string {
	if len(c.BySize) > 0 {
		return "by-size"
	}
	return plain(c.Constant)
}
