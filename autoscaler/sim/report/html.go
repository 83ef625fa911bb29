// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

//go:embed assets
var assets embed.FS

// page is what the template shows.
type page struct {
	Style    template.CSS
	Script   template.JS
	Title    string
	Facts    []string
	Legend   []legend
	Bars     template.HTML
	CDF      template.HTML
	Sweeps   []figure
	Usage    []figure
	Jobs     []figure
	Sizes    []string
	Cut      int // jobs of the allocation plots, when not all
	Table    table
	More     []table // those of other loads and costs
	Glossary []entry
}

type legend struct {
	Number, Colour int
	Dashed         bool // as its lines are
	Label          string
}

type figure struct {
	Title string
	SVG   template.HTML
}

type table struct {
	Title string
	Head  []string
	Rows  [][]field
}

type field struct {
	Text, CI string
	Best     bool
}

type entry struct{ Word, Means string }

// HTML writes the report as one file that needs no network.
func HTML(w io.Writer, c *sim.Comparison) error {
	if len(c.Cells) == 0 {
		return errors.New("report: nothing was simulated")
	}
	style, err := assets.ReadFile("assets/report.css")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	script, err := assets.ReadFile("assets/report.js")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	t, err := template.ParseFS(assets, "assets/report.html")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := t.Execute(w, build(c, style, script)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// build returns the content of the page. Everything that it marks as HTML was drawn by this
// package, with escaped labels.
func build(c *sim.Comparison, style, script []byte) *page {
	all := groups(c)
	first := all[0]
	jct := sim.Metrics()[0]
	p := &page{
		Style: template.CSS(style), Script: template.JS(script),
		Title: strings.Join(c.Workloads, ", "),
		Facts: []string{plural(c.Nodes, "node"), plural(c.GPUs, "GPU"), plural(first[0].Runs[0][0].Jobs, "job") + " in the first workload"},
		Bars:  template.HTML(barPlot(first, jct)),
		Sizes: sizeNames(), Glossary: glossary(),
	}
	if c.Seeds > 1 {
		p.Facts = append(p.Facts, plural(c.Seeds, "seed")+"; intervals are 95 % confidence over seeds")
	}
	if c.Tick > 0 {
		p.Facts = append(p.Facts, fmt.Sprintf("ticks of %g s", c.Tick))
	}
	p.Facts = append(p.Facts, fmt.Sprintf("plots at load %g, resize cost %s", first[0].Load, first[0].Cost))

	var cdf []series
	end := 0.0
	for i := range first {
		p.Legend = append(p.Legend, legend{i, colour(i), dash(i) != "", name(first, i)})
		if len(first[i].JCTs) > 0 {
			cdf = append(cdf, series{number: i, label: name(first, i), x: append([]float64(nil), first[i].JCTs...)})
		}
		if d := first[i].Detail; d != nil {
			end = math.Max(end, d.Makespan)
		}
	}
	if len(cdf) > 0 {
		p.CDF = template.HTML(cdfPlot(cdf))
	}
	for i := range first {
		d := first[i].Detail
		if d == nil || end == 0 {
			continue
		}
		label := name(first, i)
		p.Usage = append(p.Usage, figure{label, template.HTML(usagePlot(d, i, label, end))})
		p.Jobs = append(p.Jobs, figure{label, template.HTML(allocationPlot(d, label, d.Makespan))})
		if len(d.Jobs) > maxRows {
			p.Cut = maxRows
		}
	}
	p.Sweeps = sweeps(c, jct)
	p.Table = metricTable(c, first)
	for _, g := range all[1:] {
		p.More = append(p.More, metricTable(c, g))
	}
	return p
}

// sweeps returns the plots over loads and over resize costs, if there are several of them.
func sweeps(c *sim.Comparison, m sim.Metric) []figure {
	first := groups(c)[0]
	var byLoad, byCost []series
	for i := range first {
		byLoad = append(byLoad, series{number: i, label: name(first, i)})
		byCost = append(byCost, series{number: i, label: name(first, i)})
	}
	for _, g := range groups(c) {
		for i := range g {
			e := g[i].Estimate(m)
			if g[i].Cost.Equal(first[0].Cost) {
				byLoad[i].x = append(byLoad[i].x, g[i].Load)
				byLoad[i].y, byLoad[i].err = append(byLoad[i].y, e.Mean), append(byLoad[i].err, e.CI)
			}
			if g[i].Load == first[0].Load && len(g[i].Cost.BySize) == 0 {
				byCost[i].x = append(byCost[i].x, g[i].Cost.Constant)
				byCost[i].y, byCost[i].err = append(byCost[i].y, e.Mean), append(byCost[i].err, e.CI)
			}
		}
	}
	for i := range byLoad {
		byLoad[i].ascend()
		byCost[i].ascend()
	}
	var out []figure
	if len(byLoad[0].x) > 1 {
		out = append(out, figure{
			"Average JCT (s) over load, resize cost " + first[0].Cost.String(),
			template.HTML(linePlot(byLoad, "load", plain, "average JCT over load")),
		})
	}
	if len(byCost[0].x) > 1 {
		out = append(out, figure{
			fmt.Sprintf("Average JCT (s) over resize cost, load %g", first[0].Load),
			template.HTML(linePlot(byCost, "resize cost", func(v float64) string { return plain(v) + " s" }, "average JCT over resize cost")),
		})
	}
	return out
}

// metricTable returns a table of all metrics at one load and resize cost. The best value of
// each is marked.
func metricTable(c *sim.Comparison, g []sim.Cell) table {
	t := table{Title: fmt.Sprintf("Load %g, resize cost %s", g[0].Load, g[0].Cost), Head: []string{"policy", "information"}}
	metrics := shown(c)
	best, worst := make([]float64, len(metrics)), make([]float64, len(metrics))
	for k, m := range metrics {
		t.Head = append(t.Head, title(m))
		for i := range g {
			v := g[i].Estimate(m).Mean
			if i == 0 || float64(m.Good)*v > float64(m.Good)*best[k] {
				best[k] = v
			}
			if i == 0 || float64(m.Good)*v < float64(m.Good)*worst[k] {
				worst[k] = v
			}
		}
	}
	for i := range g {
		row := []field{{Text: g[i].Policy}, {Text: g[i].Class}}
		for k, m := range metrics {
			e := g[i].Estimate(m)
			f := field{Text: number(e.Mean), Best: m.Good != 0 && e.Mean == best[k] && best[k] != worst[k]}
			if e.CI > 0 {
				f.CI = "±" + number(e.CI)
			}
			row = append(row, f)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// name returns the label of a policy. It includes the information class if the policies
// have different ones.
func name(cells []sim.Cell, i int) string {
	for k := range cells {
		if cells[k].Class != cells[i].Class {
			return cells[i].Policy + " @" + cells[i].Class
		}
	}
	return cells[i].Policy
}

func sizeNames() []string {
	var out []string
	from := 1
	for _, most := range sizeClasses {
		s := strconv.Itoa(most)
		if most > from {
			s = fmt.Sprintf("%d–%d", from, most)
		}
		out = append(out, s)
		from = most + 1
	}
	return append(out, fmt.Sprintf("%d or more", from))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func glossary() []entry {
	return []entry{
		{"JCT", "job completion time, from submission to completion"},
		{"queueing", "time a job had no worker, before its start or suspended"},
		{"makespan", "time of the last completion"},
		{"utilisation", "GPUs held by jobs over GPUs there were, until the makespan"},
		{"productive", "part of the held GPU time that was training and was not taken back by a failure; the rest went into starts and resizes"},
		{"fairness", "finish-time fairness (Themis): JCT over the JCT a job would have had alone on its part of the cluster, one over the mean number of jobs during its life; above 1 it would have been better off so"},
		{"worse off", "part of the jobs with a fairness above 1"},
		{"information", "what the policy knew: oracle (exact step times, remaining work), curves (exact step times), declared (remaining work, measured step times), kinds (measured step times, shared between jobs of one application), blind (measured step times)"},
	}
}
