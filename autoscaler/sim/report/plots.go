// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// series is one policy in a plot; its number gives the colour.
type series struct {
	number int
	label  string
	x, y   []float64
	err    []float64 // half-widths of confidence intervals, or nil
}

// ascend orders the points by x.
func (s *series) ascend() {
	order := make([]int, len(s.x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.x[a], s.x[b]) })
	x, y, err := slices.Clone(s.x), slices.Clone(s.y), slices.Clone(s.err)
	for i, k := range order {
		s.x[i], s.y[i], s.err[i] = x[k], y[k], err[k]
	}
}

const (
	plotWidth  = 640.0
	plotHeight = 300.0
)

// frame draws axes and grid lines.
func frame(c *canvas, x, y scale, xTicks, yTicks []float64, xLabel, yLabel func(float64) string, xTitle string) {
	for _, v := range yTicks {
		c.line(x.a, y.at(v), x.b, y.at(v), "grid")
		c.text(x.a-6, y.at(v)+4, "end", "tick", yLabel(v))
	}
	for _, v := range xTicks {
		c.line(x.at(v), y.a, x.at(v), y.a+4, "axis")
		c.text(x.at(v), y.a+17, "middle", "tick", xLabel(v))
	}
	c.line(x.a, y.a, x.b, y.a, "axis")
	if xTitle != "" {
		c.text((x.a+x.b)/2, y.a+34, "middle", "axis-title", xTitle)
	}
}

// barPlot compares the mean of a metric, the best first.
func barPlot(cells []sim.Cell, m sim.Metric) string {
	type bar struct {
		number int
		label  string
		e      sim.Estimate
	}
	bars := make([]bar, len(cells))
	most, longest := 0.0, 0
	for i := range cells {
		bars[i] = bar{i, name(cells, i), cells[i].Estimate(m)}
		most = math.Max(most, bars[i].e.Mean+bars[i].e.CI)
		longest = max(longest, len(bars[i].label))
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(a.e.Mean, b.e.Mean) })
	const row = 24.0
	left := math.Min(260, float64(longest)*7+14)
	c := newCanvas(plotWidth, float64(len(bars))*row+8, m.Title+" by policy")
	x := scale{from: 0, to: math.Max(most, 1e-9), a: left, b: plotWidth - 84}
	for i, b := range bars {
		y := float64(i)*row + 4
		c.put(`<g data-p="%d">`, b.number)
		c.text(left-8, y+15, "end", "label", b.label)
		c.put(`<rect class="fill p%d" x="%s" y="%s" width="%s" height="%s" rx="2"/>`,
			colour(b.number), px(x.a), px(y+2), px(x.at(b.e.Mean)-x.a), px(row-6))
		if b.e.CI > 0 {
			c.line(x.at(math.Max(0, b.e.Mean-b.e.CI)), y+11, x.at(b.e.Mean+b.e.CI), y+11, "whisker")
		}
		c.text(x.at(b.e.Mean+b.e.CI)+6, y+15, "start", "value", number(b.e.Mean))
		c.WriteString("</g>")
	}
	return c.done()
}

// cdfPlot shows the part of the jobs that completed within a time.
func cdfPlot(all []series) string {
	least, most := math.Inf(1), 0.0
	for _, s := range all {
		for _, v := range s.x {
			least, most = math.Min(least, math.Max(v, 1)), math.Max(most, v)
		}
	}
	if most == 0 {
		return ""
	}
	c := newCanvas(plotWidth, plotHeight, "cumulative distribution of job completion times")
	x := scale{from: least, to: math.Max(most, least*2), a: 46, b: plotWidth - 12, log: true}
	y := scale{from: 0, to: 1, a: plotHeight - 44, b: 10}
	var xTicks []float64
	for _, v := range []float64{1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400} {
		if v >= x.from && v <= x.to {
			xTicks = append(xTicks, v)
		}
	}
	percent := func(v float64) string { return strconv.Itoa(int(math.Round(v*100))) + " %" }
	frame(c, x, y, xTicks, []float64{0, 0.25, 0.5, 0.75, 1}, duration, percent, "job completion time")
	for _, s := range all {
		slices.Sort(s.x)
		var p path
		const points = 400
		step := max(1, len(s.x)/points)
		last := 0.0
		for i := 0; i < len(s.x); i += step {
			p.to(x.at(s.x[i]), y.at(last))
			last = float64(i+1) / float64(len(s.x))
			p.to(x.at(s.x[i]), y.at(last))
		}
		p.to(x.at(s.x[len(s.x)-1]), y.at(1))
		stroke(c, s, &p)
	}
	return c.done()
}

// stroke draws a series as a line.
func stroke(c *canvas, s series, p *path) {
	c.put(`<path data-p="%d" class="stroke p%d%s" d="%s"><title>%s</title></path>`,
		s.number, colour(s.number), dash(s.number), p.String(), html.EscapeString(s.label))
}

// linePlot shows a metric over loads or resize costs.
func linePlot(all []series, xTitle string, xLabel func(float64) string, label string) string {
	least, most, top := math.Inf(1), math.Inf(-1), 0.0
	for _, s := range all {
		for i, v := range s.x {
			least, most = math.Min(least, v), math.Max(most, v)
			top = math.Max(top, s.y[i]+s.err[i])
		}
	}
	c := newCanvas(plotWidth, plotHeight, label)
	x := scale{from: least, to: most, a: 58, b: plotWidth - 20, log: least > 0 && most/least > 8}
	y := scale{from: 0, to: top * 1.05, a: plotHeight - 44, b: 10}
	frame(c, x, y, all[0].x, y.ticks(5), xLabel, func(v float64) string { return number(v) }, xTitle)
	for _, s := range all {
		var p path
		for i := range s.x {
			p.to(x.at(s.x[i]), y.at(s.y[i]))
		}
		stroke(c, s, &p)
		c.put(`<g data-p="%d">`, s.number)
		for i := range s.x {
			if s.err[i] > 0 {
				c.line(x.at(s.x[i]), y.at(math.Max(0, s.y[i]-s.err[i])), x.at(s.x[i]), y.at(s.y[i]+s.err[i]), fmt.Sprintf("stroke thin p%d", colour(s.number)))
			}
			c.put(`<circle class="fill p%d" cx="%s" cy="%s" r="3.5"><title>%s: %s</title></circle>`,
				colour(s.number), px(x.at(s.x[i])), px(y.at(s.y[i])), html.EscapeString(s.label), number(s.y[i]))
		}
		c.WriteString("</g>")
	}
	return c.done()
}

// colours is how many colours the style sheet has. Further lines are dashed.
const colours = 8

func colour(number int) int { return number % colours }

func dash(number int) string {
	if number >= colours {
		return " dashed"
	}
	return ""
}
