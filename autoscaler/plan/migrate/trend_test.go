// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"math"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// nodes returns a crossing of a number of nodes of one rack.
func nodes(parts, most int) Crossing {
	if parts < 2 {
		return Crossing{}
	}
	return Crossing{Level: "node", Domains: parts, Parts: parts, Most: most}
}

// The programs were measured at sizes 2, 4 and 8, and the test asks for size 6.
func TestTrend(t *testing.T) {
	times := func(step func(size, parts int) float64) *Sensitivity {
		s := &Sensitivity{}
		for _, size := range []int{2, 4, 8} {
			for parts := (size + 3) / 4; parts <= size; parts *= 2 {
				s.Learn(Point{Size: size, Crossing: nodes(parts, size/parts), StepTime: step(size, parts)})
			}
		}
		return s
	}
	for name, tc := range map[string]struct {
		step     func(size, parts int) float64
		from, to Crossing
		least    float64
		most     float64
	}{
		"the network holds it back":      {func(n, p int) float64 { return math.Pow(float64(p), 0.5) / float64(n) }, nodes(2, 3), nodes(6, 1), 1.2, 1.8},
		"and so it is faster together":   {func(n, p int) float64 { return math.Pow(float64(p), 0.5) / float64(n) }, nodes(6, 1), nodes(2, 3), 0.55, 0.85},
		"workers of a node hold it":      {func(n, p int) float64 { return math.Pow(float64(p), -0.2) / float64(n) }, nodes(2, 3), nodes(6, 1), 0.75, 0.9},
		"it does not care":               {func(n, p int) float64 { return 1 / float64(n) }, nodes(2, 3), nodes(6, 1), 0.999, 1.001},
		"one node against any number":    {func(n, p int) float64 { return map[bool]float64{true: 1, false: 3}[p == 1] }, nodes(1, 0), nodes(2, 3), 1.3, 3},
		"and further apart costs little": {func(n, p int) float64 { return map[bool]float64{true: 1, false: 3}[p == 1] }, nodes(2, 3), nodes(3, 2), 0.8, 1.3},
	} {
		t.Run(name, func(t *testing.T) {
			r, known := Slowdown(6, tc.from, tc.to, times(tc.step))
			must.True(t, known)
			must.Between(t, tc.least, r, tc.most)
		})
	}
}

// For any reports, an estimate is a positive number, and the estimate for the reverse
// direction is its inverse.
func TestTrend_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		crossing := rapid.Custom(func(t *rapid.T) Crossing {
			if rapid.Bool().Draw(t, "together") {
				return Crossing{}
			}
			return Crossing{
				Level:   rapid.SampledFrom([]string{"meta.block", "meta.rack", "node", "a", "b", "c", "d", "e", "f", "g"}).Draw(t, "level"),
				Domains: rapid.IntRange(-1, 1<<40).Draw(t, "domains"),
				Parts:   rapid.IntRange(-1, 1<<40).Draw(t, "parts"),
				Most:    rapid.IntRange(-1, 1<<40).Draw(t, "most"),
			}
		})
		draw := func(name string) *Sensitivity {
			s := &Sensitivity{}
			for range rapid.IntRange(0, 40).Draw(t, name) {
				s.Learn(Point{
					Size: rapid.IntRange(1, 64).Draw(t, "size"), Crossing: crossing.Draw(t, "at"),
					StepTime: math.Exp(rapid.Float64Range(-3, 3).Draw(t, "log of the time")),
				})
			}
			return s
		}
		own, alike := draw("own"), draw("alike")
		size, a, b := rapid.IntRange(1, 64).Draw(t, "size"), crossing.Draw(t, "from"), crossing.Draw(t, "to")
		r, known := Slowdown(size, a, b, own, alike)
		back, again := Slowdown(size, b, a, own, alike)
		hope, _ := Hopeful(size, a, b, own, alike)
		switch {
		case known != again:
			t.Fatalf("known is %v, and %v of the way back", known, again)
		case !known && r != 1:
			t.Fatalf("unknown, and %v", r)
		case !(r > 0) || math.IsInf(r, 1) || math.Abs(r*back-1) > 1e-6:
			t.Fatalf("%v, and %v of the way back", r, back)
		case hope < 0.98 && known && back < 0.97:
			t.Fatalf("worth a try at %v, and then a move back at %v", hope, back)
		case hope < r*0.95 || known && hope > r:
			t.Fatalf("%v, hopefully %v", r, hope)
		}
	})
}

// A placement that no job has tried is tried, except by a job that was much slower on
// separate nodes.
func TestHopeful(t *testing.T) {
	times := func(apart float64) *Sensitivity {
		return &Sensitivity{Points: []Point{{Size: 4, StepTime: 1}, {Size: 4, Crossing: nodes(2, 2), StepTime: apart}}}
	}
	hope := func(size int, to Crossing, of ...*Sensitivity) float64 {
		r, known := Hopeful(size, Crossing{}, to, of...)
		must.True(t, known)
		return r
	}
	must.Less(t, 0.98, hope(8, nodes(2, 4), times(1)), must.Sprint("it makes no difference at another size"))
	must.Eq(t, 1, hope(4, nodes(2, 2), times(1)), must.Sprint("it was tried"))
	must.Eq(t, 1, hope(8, Crossing{}, times(1)), must.Sprint("it is there"))
	must.Greater(t, 1.02, hope(8, nodes(2, 4), times(1.3)), must.Sprint("it suffered at another size"))
	must.Greater(t, 1, hope(8, nodes(2, 4), times(1), times(1.3)), must.Sprint("its kind did"))
	_, known := Hopeful(4, Crossing{}, nodes(2, 2), &Sensitivity{})
	must.False(t, known, must.Sprint("what nothing is known of stays together"))

	racks := Crossing{Level: "meta.rack", Domains: 2, Parts: 2, Most: 2}
	_, known = Slowdown(4, Crossing{}, racks, times(1))
	must.False(t, known, must.Sprint("no job moves there"))
	must.Less(t, 0.98, hope(4, racks, times(1)), must.Sprint("but it may be tried where it is known not to care"))
	_, known = Hopeful(4, Crossing{}, racks, times(1.3))
	must.False(t, known, must.Sprint("not where it is known to"))
	_, known = Hopeful(4, Crossing{}, racks.Outer(), times(1))
	must.False(t, known, must.Sprint("Nomad would decide what is tried"))
}

// The job is equally fast everywhere, and is resized at random. As in production, 24 of its
// times and 96 of its kind's are kept.
func TestHopeful_Ends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own, alike := &Sensitivity{}, &Sensitivity{}
		learn := func(p Point) {
			for s, most := range map[*Sensitivity]int{own: 24, alike: 96} {
				s.Learn(p)
				s.Points = s.Points[max(0, len(s.Points)-most):]
			}
		}
		learn(Point{Size: 2, StepTime: 1})
		learn(Point{Size: 2, Crossing: nodes(2, 1), StepTime: 1})
		tries := 0
		for range 400 {
			size := rapid.IntRange(2, 32).Draw(t, "size")
			parts := rapid.IntRange(2, size).Draw(t, "parts")
			to := nodes(parts, (size+parts-1)/parts)
			if r, _ := Hopeful(size, Crossing{}, to, own, alike); r < 0.98 {
				tries++
				learn(Point{Size: size, Crossing: to, StepTime: 1})
			} else {
				learn(Point{Size: size, StepTime: 1})
			}
		}
		if tries > enoughOfJob {
			t.Fatalf("%d tries", tries)
		}
	})
}

func TestTrend_WhatIsNotComparedIsUnknown(t *testing.T) {
	racks := Crossing{Level: "meta.rack", Domains: 2, Parts: 2, Most: 4}
	s := &Sensitivity{Points: []Point{
		{Size: 4, Crossing: nodes(2, 2), StepTime: 1}, {Size: 4, Crossing: nodes(3, 2), StepTime: 1},
		{Size: 8, Crossing: racks, StepTime: 5}, // alone
	}}
	_, known := Slowdown(8, nodes(2, 4), racks, s)
	must.False(t, known)
	s.Learn(Point{Size: 8, StepTime: 1})
	_, known = Slowdown(8, nodes(2, 4), racks, s)
	must.False(t, known, must.Sprint("it was compared, but not with nodes"))
	s.Learn(Point{Size: 4, StepTime: 1})
	r, known := Slowdown(8, nodes(2, 4), racks, s)
	must.True(t, known, must.Sprint("by way of one node"))
	must.Greater(t, 1.2, r)

	s = &Sensitivity{Points: []Point{{Size: 8, StepTime: 1}, {Size: 8, Crossing: racks, StepTime: 2}}}
	_, known = Slowdown(8, nodes(2, 4), nodes(3, 3), s)
	must.False(t, known, must.Sprint("nothing was measured on nodes of one rack"))
}

// A placement is further apart if it has more parts of a level, or crosses a level that it
// did not cross before.
func TestSuffers(t *testing.T) {
	racks := func(parts int) Crossing { return Crossing{Level: "meta.rack", Domains: 2, Parts: parts, Most: 4} }
	for name, tc := range map[string]struct {
		fast, slow Crossing
		want       bool
	}{
		"one node, and two":               {Crossing{}, nodes(2, 2), true},
		"two nodes, and one":              {nodes(2, 2), Crossing{}, false},
		"two nodes, and four":             {nodes(2, 2), nodes(4, 1), true},
		"four nodes, and two":             {nodes(4, 1), nodes(2, 2), false},
		"as many nodes, more together":    {nodes(2, 2), nodes(2, 3), false},
		"nodes of one rack, and of two":   {nodes(4, 1), racks(4), true},
		"and of two, though fewer":        {nodes(4, 1), racks(3), true},
		"nodes of two racks, and of one":  {racks(2), nodes(2, 2), false},
		"islands of a node, and nodes":    {Crossing{Level: "device.island", Domains: 2, Parts: 2, Most: 2}, nodes(2, 2), true},
		"nodes, and islands of one":       {nodes(2, 2), Crossing{Level: "device.island", Domains: 2, Parts: 2, Most: 2}, false},
		"two racks, and more, long since": {Crossing{Level: "meta.rack", Domains: 2}, Crossing{Level: "meta.rack", Domains: 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for time, want := range map[float64]bool{1.1: false, 1.2: tc.want} {
				s := &Sensitivity{Points: []Point{{Size: 4, Crossing: tc.fast, StepTime: 1}, {Size: 4, Crossing: tc.slow, StepTime: time}}}
				must.Eq(t, want, s.sensitive())
			}
		})
	}
}

// TestTry checks as how many tries of its kind a job's time counts.
func TestTry(t *testing.T) {
	at := func(size int, c Crossing, time float64) Point { return Point{Size: size, Crossing: c, StepTime: time} }
	racks := Crossing{Level: "meta.rack", Domains: 2, Parts: 2, Most: 4}
	const alarm = EnoughTries / alarms
	for name, tc := range map[string]struct {
		own, kind []Point
		p         Point
		want      int
	}{
		"the first":                         {nil, nil, at(4, nodes(2, 2), 1), 1},
		"together":                          {nil, nil, at(4, Crossing{}, 1), 0},
		"again":                             {[]Point{at(4, nodes(2, 2), 1)}, nil, at(4, nodes(2, 2), 9), 0},
		"the kind knows":                    {nil, []Point{at(4, nodes(2, 2), 1)}, at(4, nodes(2, 2), 1), 0},
		"where Nomad has put it":            {nil, nil, at(4, Crossing{Level: "node", Domains: 2}, 1), 0},
		"a bit slower than at half":         {[]Point{at(2, Crossing{}, 1)}, nil, at(4, nodes(2, 2), 1.4), 1},
		"much slower than at half":          {[]Point{at(2, Crossing{}, 1)}, nil, at(4, nodes(2, 2), 1.6), alarm},
		"at a quarter":                      {[]Point{at(2, Crossing{}, 1)}, nil, at(8, nodes(2, 4), 9), 1},
		"than one worker":                   {[]Point{at(1, Crossing{}, 1)}, nil, at(2, nodes(2, 1), 9), 1},
		"as slow as fewer are":              {[]Point{at(8, Crossing{}, 1)}, nil, at(4, nodes(2, 2), 2.9), 1},
		"slower than fewer are":             {[]Point{at(8, Crossing{}, 1)}, nil, at(4, nodes(2, 2), 3.1), alarm},
		"together it would have been fast":  {[]Point{at(4, nodes(2, 2), 9)}, nil, at(2, Crossing{}, 1), alarm},
		"at one size it may have recovered": {[]Point{at(4, Crossing{}, 1)}, nil, at(4, nodes(2, 2), 9), 1},
		"racks are better":                  {[]Point{at(8, racks, 1)}, nil, at(4, nodes(2, 2), 9), 1},
		"the job has given alarm":           {[]Point{at(2, Crossing{}, 1), at(4, nodes(2, 2), 9)}, nil, at(8, nodes(2, 4), 99), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Sensitivity{Points: tc.own}
			must.Eq(t, tc.want, s.Try(tc.p, &Sensitivity{Points: tc.kind}))
		})
	}
}

// A topology has at most eight levels, but may have had others before.
func TestTrend_ManyLevels(t *testing.T) {
	s := &Sensitivity{Points: []Point{{Size: 8, StepTime: 1}}}
	for i := range 8 {
		s.Learn(Point{Size: 8, Crossing: Crossing{Level: strings.Repeat("l", i+1), Domains: 2, Parts: 2, Most: 4}, StepTime: 2})
	}
	for i := range 40 {
		s.Learn(Point{Size: 8, Crossing: Crossing{Level: strings.Repeat("old", i+1), Domains: 2, Parts: 2, Most: 4}, StepTime: 1})
	}
	r, known := Slowdown(4, Crossing{}, Crossing{Level: "l", Domains: 2, Parts: 2, Most: 2}, s)
	must.True(t, known)
	must.Between(t, 1.3, r, 2)
}

// Impossible times are never learned, but saved data may have some.
func TestTrend_WhatCannotBeIsPassedOver(t *testing.T) {
	good := []Point{{Size: 4, StepTime: 1}, {Size: 4, Crossing: nodes(2, 2), StepTime: 1.5}}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		for _, size := range []int{4, 8} {
			s := &Sensitivity{Points: append([]Point{{Size: size, Crossing: nodes(3, 1), StepTime: bad}, {Size: 0, StepTime: 1}}, good...)}
			r, known := Slowdown(8, Crossing{}, nodes(3, 1), s)
			must.True(t, known)
			must.Between(t, 1.1, r, 2)
			hope, _ := Hopeful(size, Crossing{}, nodes(3, 1), s)
			must.Between(t, 0.9, hope, 2)
		}
	}
}
