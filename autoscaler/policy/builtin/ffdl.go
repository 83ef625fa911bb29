// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// ffdl maximises the total speed-up of the jobs it admits.
type ffdl struct {
	Method string `hcl:"method,optional" doc:"dp (exact; hull where its table would be too large), greedy (one step at a time, exact for concave curves), hull (greedy that steps over dips) or auto: dp while it is cheap, else hull"`
	Limit  int    `hcl:"limit,optional" doc:"auto uses dp up to this many table updates"`
}

// Check implements registry.Checker.
func (f ffdl) Check() (string, string) {
	switch f.Method {
	case "auto", "dp", "greedy", "hull":
	default:
		return "method", `must be "auto", "dp", "greedy" or "hull"`
	}
	if f.Limit < 0 || f.Limit > mostUpdates {
		return "limit", fmt.Sprintf("must be between 0 and %d", mostUpdates)
	}
	return "", ""
}

var ffdlEntry = registry.Define(registry.Info{
	Name:   "ffdl",
	Doc:    "Admits jobs in order of arrival as long as their minima fit, and maximises the weighted sum of their speed-ups, for jobs of higher priority first.",
	Source: "elastic FfDL (MASCOTS'20); dynamic programming as in Voda",
	Needs:  "speed-up curves; unmeasured sizes use the prior",
}, ffdl{Method: "auto", Limit: ffdlLimit}, ffdl.allocate)

// ffdlLimit is how many table updates dynamic programming may take by default.
const ffdlLimit = 50_000_000

// leastGain is the speed-up below which one more GPU counts as no gain.
const leastGain = 1e-9

func (f ffdl) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	for _, p := range pools {
		p.pin()
		admitted := p.prefix(p.byPriority(nil))
		const why = "part of the split with the highest total speed-up"
		switch method := f.method(p, admitted); method {
		case "dp":
			for _, tier := range tiers(admitted) {
				p.maximise(tier, weightedSpeed, why)
			}
		case "greedy":
			p.auction(admitted, leastGain, stepGain, why)
		default:
			p.auction(admitted, leastGain, p.hullGain, why)
		}
	}
	settle(&d, pools)
	return d
}

// prefix gives jobs their minima in order until one does not fit, and returns all jobs
// that have workers.
func (p *pool) prefix(order []*candidate) []*candidate {
	var admitted []*candidate
	open := true
	for _, c := range order {
		if c.n == 0 && open {
			if open = p.set(c, c.low); open {
				c.why = "admitted in order of arrival"
			}
		}
		if c.n > 0 {
			admitted = append(admitted, c)
		}
	}
	return admitted
}

// These limits keep a table below a second and 128 MiB, because any caller of the HTTP
// API may name the method.
const (
	mostUpdates = 300_000_000
	mostCells   = 32 << 20 // of 4 bytes
)

// method returns the method to use for the jobs: dp only if its table is small enough.
func (f ffdl) method(p *pool, admitted []*candidate) string {
	limit := f.Limit
	switch f.Method {
	case "greedy", "hull":
		return f.Method
	case "dp":
		limit = mostUpdates
	}
	width := p.free + 1
	if len(admitted) > mostCells/width {
		return "hull"
	}
	updates := 0
	for _, c := range admitted {
		levels := min(p.free/c.per+1, c.Sizes.Count(c.low, c.high))
		if updates += levels * width; updates > limit {
			return "hull"
		}
	}
	return "dp"
}

// weightedSpeed returns the weight times the speed-up of a job at a size.
func weightedSpeed(c *candidate, n int) float64 { return c.weight() * c.speed(n) }

// level is a size worth considering because it is worth more than every smaller one.
type level struct {
	size, extra int // workers, GPUs over the minimum
	worth       float64
}

// maximise splits the free GPUs over jobs that have their minimum so that the sum of worth,
// over jobs at their size, is greatest. It uses dynamic programming over jobs and GPUs. Among
// equal splits it prefers the one that leaves more GPUs free.
func (p *pool) maximise(jobs []*candidate, worth func(c *candidate, n int) float64, why string) {
	width := p.free + 1
	best := make([]float64, width) // best[k]: highest sum with k GPUs so far
	prev := make([]float64, width)
	choice := make([]int32, len(jobs)*width)
	var levels []level
	for i, c := range jobs {
		levels = p.levels(levels[:0], c, worth)
		best, prev = prev, best
		row := choice[i*width : (i+1)*width]
		for k := range width {
			c.snap.Checkpoint()
			top, pick := prev[k]+levels[0].worth, int32(levels[0].size)
			for _, l := range levels[1:] {
				if l.extra > k {
					break
				}
				if v := prev[k-l.extra] + l.worth; v > top {
					top, pick = v, int32(l.size)
				}
			}
			best[k], row[k] = top, pick
		}
	}
	k := 0
	for i, v := range best {
		if v > best[k] {
			k = i
		}
	}
	for i := len(jobs) - 1; i >= 0; i-- {
		c := jobs[i]
		n := int(choice[i*width+k])
		k -= c.cost(n) - c.cost(c.n)
		if n != c.n {
			p.set(c, n)
			c.why = why
		}
	}
}

// levels returns the sizes of a job that fit, from its current one up.
func (p *pool) levels(levels []level, c *candidate, worth func(c *candidate, n int) float64) []level {
	levels = append(levels, level{c.n, 0, worth(c, c.n)})
	for n := c.next(c.n); n > 0; n = c.next(n) {
		extra := c.cost(n) - c.cost(c.n)
		if extra > p.free {
			break
		}
		if w := worth(c, n); w > levels[len(levels)-1].worth {
			levels = append(levels, level{n, extra, w})
		}
	}
	return levels
}
