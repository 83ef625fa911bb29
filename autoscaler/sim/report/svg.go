// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// canvas collects the elements of one SVG image. Coordinates are rounded to a tenth of a
// pixel, which is not visible and keeps files small.
type canvas struct {
	strings.Builder
	width, height float64
}

func newCanvas(width, height float64, label string) *canvas {
	c := &canvas{width: width, height: height}
	c.put(`<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`, px(width), px(height), html.EscapeString(label))
	return c
}

// put writes an element.
func (c *canvas) put(format string, args ...any) { fmt.Fprintf(&c.Builder, format, args...) }

func (c *canvas) done() string { c.WriteString("</svg>"); return c.String() }

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.put(`<path class="%s" d="M%s %sL%s %s"/>`, class, px(x1), px(y1), px(x2), px(y2))
}

// text writes a label; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, class, s string) {
	c.put(`<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`, px(x), px(y), anchor, class, html.EscapeString(s))
}

func px(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// path builds the d attribute of a path.
type path struct{ strings.Builder }

func (p *path) to(x, y float64) {
	if p.Len() == 0 {
		p.WriteByte('M')
	} else {
		p.WriteByte('L')
	}
	p.WriteString(px(x) + " " + px(y))
}

// box adds a closed rectangle.
func (p *path) box(x, y, w, h float64) {
	fmt.Fprintf(&p.Builder, "M%s %sh%sv%sh%sz", px(x), px(y), px(w), px(h), px(-w))
}

// scale maps values to pixels.
type scale struct {
	from, to float64 // values
	a, b     float64 // pixels
	log      bool
}

func (s scale) at(v float64) float64 {
	from, to := s.from, s.to
	if s.log {
		from, to, v = math.Log(from), math.Log(to), math.Log(math.Max(v, s.from))
	}
	if to == from {
		return s.a
	}
	return s.a + (v-from)/(to-from)*(s.b-s.a)
}

// ticks returns about n round values within the scale.
func (s scale) ticks(n int) []float64 {
	span := s.to - s.from
	if span <= 0 {
		return []float64{s.from}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if span/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	var out []float64
	for i := math.Ceil(s.from/step - 1e-9); i*step <= s.to+step*1e-9; i++ {
		out = append(out, i*step)
	}
	return out
}

// hourTicks returns round times for a scale in seconds.
func (s scale) hourTicks(n int) []float64 {
	for _, step := range []float64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 2 * 3600, 4 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 2 * 24 * 3600, 7 * 24 * 3600, 28 * 24 * 3600, 140 * 24 * 3600} {
		if (s.to-s.from)/step <= float64(n) {
			var out []float64
			for v := math.Ceil(s.from/step) * step; v <= s.to; v += step {
				out = append(out, v)
			}
			return out
		}
	}
	return s.ticks(n)
}

// duration returns a time with a suitable unit.
func duration(s float64) string {
	trim := func(v float64, unit string) string {
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " " + unit
	}
	switch {
	case s == 0:
		return "0"
	case s < 90:
		return trim(s, "s")
	case s < 90*60:
		return trim(s/60, "min")
	case s < 48*3600:
		return trim(s/3600, "h")
	}
	return trim(s/86400, "d")
}
