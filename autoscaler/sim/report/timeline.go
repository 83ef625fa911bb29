// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"fmt"
	"html"
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// slots is the number of intervals of a plot over time.
const slots = 560

// usagePlot shows how many GPUs were held over time, and how many jobs waited.
func usagePlot(r *sim.Result, number int, label string, end float64) string {
	held, capacity, waiting := sampleUsage(r.Usage, end)
	most, queue := 1.0, 0.0
	for i := range held {
		most, queue = math.Max(most, capacity[i]), math.Max(queue, waiting[i])
	}
	const height = 118.0
	c := newCanvas(plotWidth, height, "use of GPUs over time, "+label)
	x := scale{from: 0, to: end, a: 46, b: plotWidth - 40}
	y := scale{from: 0, to: most, a: height - 24, b: 8}
	w := scale{from: 0, to: math.Max(queue, 1), a: y.a, b: y.b}
	frame(c, x, y, x.hourTicks(8), []float64{0, most}, duration, func(v float64) string { return fmt.Sprintf("%.0f", v) }, "")
	if queue > 0 {
		c.text(x.b+6, y.b+8, "start", "tick", fmt.Sprintf("%.0f", queue))
	}
	var area, line, top path
	area.to(x.a, y.a)
	for i := range held {
		from, to := x.at(end*float64(i)/slots), x.at(end*float64(i+1)/slots)
		area.to(from, y.at(held[i]))
		area.to(to, y.at(held[i]))
		line.to(from, w.at(waiting[i]))
		line.to(to, w.at(waiting[i]))
		top.to(from, y.at(capacity[i]))
		top.to(to, y.at(capacity[i]))
	}
	area.to(x.b, y.a)
	c.put(`<path class="fill area p%d" d="%sz"><title>GPUs held</title></path>`, colour(number), area.String())
	c.put(`<path class="capacity" d="%s"><title>GPUs there are</title></path>`, top.String())
	if queue > 0 {
		c.put(`<path class="queue" d="%s"><title>jobs waiting</title></path>`, line.String())
	}
	return c.done()
}

// sampleUsage averages the use of the cluster over equal intervals.
func sampleUsage(usage []sim.Usage, end float64) (held, capacity, waiting []float64) {
	held, capacity, waiting = make([]float64, slots), make([]float64, slots), make([]float64, slots)
	width := end / slots
	for i, u := range usage {
		to := end
		if i+1 < len(usage) {
			to = math.Min(end, usage[i+1].Time)
		}
		for s := int(u.Time / width); s < slots && float64(s)*width < to; s++ {
			part := (math.Min(to, float64(s+1)*width) - math.Max(u.Time, float64(s)*width)) / width
			if part <= 0 {
				continue
			}
			held[s] += part * float64(u.Held)
			capacity[s] += part * float64(u.Capacity)
			waiting[s] += part * float64(u.Waiting)
		}
	}
	return held, capacity, waiting
}

// maxRows bounds how many jobs an allocation plot shows.
const maxRows = 320

// sizeClasses has the largest number of GPUs of each colour in an allocation plot. One more
// colour is for larger sizes.
var sizeClasses = []int{1, 2, 4, 8, 16, 32}

func sizeClass(gpus int) int {
	for i, most := range sizeClasses {
		if gpus <= most {
			return i
		}
	}
	return len(sizeClasses)
}

// allocationPlot shows a row for each job: a thin line while it waits, and a bar while it
// runs, which is darker the more GPUs it holds.
func allocationPlot(r *sim.Result, label string, end float64) string {
	jobs := r.Jobs[:min(len(r.Jobs), maxRows)]
	row := math.Max(2.5, math.Min(14, 560/float64(len(jobs))))
	height := row*float64(len(jobs)) + 34
	c := newCanvas(plotWidth*1.5, height, "GPUs of each job over time, "+label)
	x := scale{from: 0, to: end, a: 12, b: plotWidth*1.5 - 12}
	bottom := scale{from: 0, to: 1, a: height - 26, b: 4}
	for _, v := range x.hourTicks(12) {
		c.line(x.at(v), bottom.b, x.at(v), bottom.a, "grid")
		c.text(x.at(v), bottom.a+17, "middle", "tick", duration(v))
	}
	bars := make([]path, len(sizeClasses)+1)
	var waiting path
	for i := range jobs {
		j := &jobs[i]
		y := 4 + float64(i)*row
		if j.Done > j.Submit {
			waiting.box(x.at(j.Submit), y+row/2-0.4, math.Max(0.3, x.at(j.Done)-x.at(j.Submit)), 0.8)
		}
		for k, h := range j.History {
			until := j.Done
			if k+1 < len(j.History) {
				until = j.History[k+1].Time
			}
			if h.GPUs == 0 || until <= h.Time {
				continue
			}
			bars[sizeClass(h.GPUs)].box(x.at(h.Time), y+0.3, math.Max(0.4, x.at(until)-x.at(h.Time)), row-0.6)
		}
	}
	c.put(`<path class="waiting" d="%s"/>`, waiting.String())
	for i := range bars {
		if bars[i].Len() > 0 {
			c.put(`<path class="size%d" d="%s"/>`, i, bars[i].String())
		}
	}
	for i := range jobs {
		j := &jobs[i]
		c.put(`<rect class="hit" x="%s" y="%s" width="%s" height="%s"><title>%s: JCT %s, without workers %s, %d resizes</title></rect>`,
			px(x.at(j.Submit)), px(4+float64(i)*row), px(math.Max(2, x.at(j.Done)-x.at(j.Submit))), px(row),
			html.EscapeString(j.ID), duration(j.JCT()), duration(j.Queueing()), j.Resizes)
	}
	return c.done()
}
