// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"fmt"
	"html"
)

// colours are those of the lines, in the order of runLaunchers: a palette that people with colour
// blindness can tell apart (Okabe and Ito).
var colours = []string{"#0072b2", "#56b4e9", "#009e73", "#d55e00", "#e69f00", "#cc79a7", "#000000"}

// The size of the picture, and its margins, in pixels.
const (
	pictureWidth, pictureHeight = 900, 440
	left, right, top, bottom    = 60, 20, 20, 40
)

// picture draws the steps of the runs with the most frequent events over time, as SVG.
func (r *RunResults) picture() []byte {
	by := r.By[r.schedules()[0].String()]
	longest := float64(r.Steps) * fullStep.Seconds()
	for _, run := range by {
		longest = max(longest, run.Wall)
	}
	x := func(at float64) float64 { return left + at/longest*(pictureWidth-left-right) }
	y := func(step int) float64 {
		return pictureHeight - bottom - float64(step)/float64(r.Steps)*(pictureHeight-top-bottom)
	}
	var w bytes.Buffer
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", pictureWidth, pictureHeight)
	fmt.Fprintf(&w, `<title>Steps over time</title><rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for i := range 6 {
		at, step := longest*float64(i)/5, r.Steps*i/5
		fmt.Fprintf(&w, `<text x="%.0f" y="%d" text-anchor="middle">%.0f s</text><text x="%d" y="%.0f" text-anchor="end">%d</text>`+"\n",
			x(at), pictureHeight-bottom+18, at, left-8, y(step)+4, step)
	}
	fmt.Fprintf(&w, `<path d="M%d %d V%d H%d" fill="none" stroke="black"/>`+"\n", left, top, pictureHeight-bottom, pictureWidth-right)
	fmt.Fprintf(&w, `<path d="M%.1f %.1f L%.1f %.1f" stroke="#bbb" stroke-width="4"/>`+"\n", x(0), y(0), x(float64(r.Steps)*fullStep.Seconds()), y(r.Steps))
	drawn := false
	row := 0
	for i, l := range runLaunchers {
		run := by[l.Name]
		if run == nil {
			continue
		}
		if !drawn { // all have the same events
			drawn = true
			for _, e := range run.Events {
				fmt.Fprintf(&w, `<path d="M%.1f %d V%d" stroke="#999" stroke-dasharray="3 3"/><text transform="translate(%.1f %d) rotate(90)" fill="#555" font-size="10">%s</text>`+"\n",
					x(e.At), top, pictureHeight-bottom, x(e.At)+3, top, html.EscapeString(string(e.Cause)))
			}
		}
		fmt.Fprintf(&w, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colours[i])
		for _, p := range run.Points {
			fmt.Fprintf(&w, "%.1f,%.1f ", x(p.At), y(p.Step))
		}
		fmt.Fprintf(&w, `"/><text x="%d" y="%d" text-anchor="end" fill="%s">%s: %.1f %%</text>`+"\n",
			pictureWidth-right-4, pictureHeight-bottom-10-16*row, colours[i], html.EscapeString(l.Name), run.Productive()*100)
		row++
	}
	fmt.Fprintf(&w, "</svg>\n")
	return w.Bytes()
}
