// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// A role is what a process is to a job.
type role string

const (
	launcher role = "launcher" // with its agents
	trainer  role = "trainer"
)

var roles = []role{launcher, trainer}

// A usage is what one process has while all ranks train and nothing changes.
type usage struct {
	Role role `json:"role"`
	PID  int  `json:"pid"`
	// Age is what the process has been through: changes for the launcher, rings
	// for a trainer. Ranks are those of the present ring.
	Age         int `json:"age"`
	Ranks       int `json:"ranks"`
	Descriptors int `json:"descriptors"`
	Memory      int `json:"memory"` // bytes that it does not share
}

// usageOf looks at a process; all zero if it is gone.
func usageOf(r role, pid, age, ranks int) usage {
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	_, memory, _ := cluster.Process{PID: pid}.Memory()
	return usage{r, pid, age, ranks, len(open), memory}
}

// What the launcher may have at any time: its own, and what it has for each rank.
const (
	descriptors, rankDescriptors = 40, 12
	maxMemory                    = 64e6
)

// A limit is how fast something may grow. It fails a run only if it was exceeded
// by enough to be no noise: the growth over all ages comes to more than floor.
type limit struct{ each, floor float64 }

// limits are for each unit of age. Descriptors stay the same, so one that is lost
// now and then shows; memory moves with the heap.
var limits = map[role]struct{ descriptors, memory limit }{
	launcher: {limit{0.2, 15}, limit{20e3, 12e6}},
	trainer:  {limit{0.2, 5}, limit{200e3, 8e6}},
}

// growth is what processes had whenever all ranks trained.
type growth struct {
	samples []usage
	rings   map[int]int // by process, as far as the record was read
	read    int
}

// look takes in what the launcher and the trainers have now.
func (g *growth) look(t *trial, ranks int) []usage {
	if g.rings == nil {
		g.rings = map[int]int{}
	}
	for _, e := range t.Record[g.read:] {
		switch e.Kind {
		case "start":
			g.rings[e.PID] = 0 // the number may have been another process's
		case "ring":
			g.rings[e.PID]++
		}
	}
	g.read = len(t.Record)
	seen := []usage{usageOf(launcher, t.PID(), t.changes, ranks)}
	for _, pid := range t.Processes() {
		if u := usageOf(trainer, pid, g.rings[pid], ranks); u.Descriptors > 0 && u.Age > 0 {
			seen = append(seen, u)
		}
	}
	g.samples = append(g.samples, seen...)
	return seen
}

// of are the samples of a role.
func (g *growth) of(r role) []usage {
	return slices.DeleteFunc(slices.Clone(g.samples), func(u usage) bool { return u.Role != r })
}

// check returns an error if the launcher once had too much, or if processes had
// more the older they were.
func (g *growth) check() error {
	var wrong []error
	for _, u := range g.of(launcher) {
		if u.Descriptors > descriptors+rankDescriptors*u.Ranks || u.Memory > maxMemory {
			wrong = append(wrong, fmt.Errorf("the launcher of %d ranks has %d descriptors, %.1f MB", u.Ranks, u.Descriptors, float64(u.Memory)/1e6))
			break
		}
	}
	for _, r := range roles {
		of, l := g.of(r), limits[r]
		if rate, ok := l.descriptors.exceeded(of, openOf); ok {
			wrong = append(wrong, fmt.Errorf("the %s has %.2f descriptors more after each %s", r, rate, r.unit()))
		}
		if rate, ok := l.memory.exceeded(of, memoryOf); ok {
			wrong = append(wrong, fmt.Errorf("the %s has %.0f kB more after each %s", r, rate/1e3, r.unit()))
		}
	}
	return errors.Join(wrong...)
}

func openOf(u usage) float64   { return float64(u.Descriptors) }
func memoryOf(u usage) float64 { return float64(u.Memory) }

func (r role) unit() string {
	if r == launcher {
		return "change"
	}
	return "ring"
}

// exceeded returns how fast a value grows, and whether that is too fast.
func (l limit) exceeded(of []usage, value func(usage) float64) (rate float64, ok bool) {
	rate = slope(of, value)
	return rate, rate > l.each && rate*float64(ages(of)) > l.floor
}

// ages is how far the ages are apart.
func ages(of []usage) int {
	if len(of) == 0 {
		return 0
	}
	byAge := func(a, b usage) int { return cmp.Compare(a.Age, b.Age) }
	return slices.MaxFunc(of, byAge).Age - slices.MinFunc(of, byAge).Age
}

// slope is how much a value grows with each unit of age, in rings of the same
// size: the median over all pairs of samples whose ages are at least a quarter of
// the whole range apart (Theil and Sen's estimator). Up to a quarter of all samples
// may be anything without moving it far.
func slope(of []usage, value func(usage) float64) float64 {
	least := max(1, ages(of)/4)
	var slopes []float64
	for _, old := range of {
		for _, young := range of {
			if old.Ranks == young.Ranks && old.Age-young.Age >= least {
				slopes = append(slopes, (value(old)-value(young))/float64(old.Age-young.Age))
			}
		}
	}
	return median(slopes)
}

// report has a line for each role.
func (g *growth) report() string {
	var text strings.Builder
	for _, r := range roles {
		of := g.of(r)
		if len(of) == 0 {
			continue
		}
		middle := func(value func(usage) float64) float64 {
			var all []float64
			for _, u := range of {
				all = append(all, value(u))
			}
			return median(all)
		}
		fmt.Fprintf(&text, "  %s, up to %d %ss old: %.0f descriptors (%+.3f each %s), %.1f MB (%+.1f kB each %s), medians of %d\n",
			r, slices.MaxFunc(of, func(a, b usage) int { return cmp.Compare(a.Age, b.Age) }).Age, r.unit(),
			middle(openOf), slope(of, openOf), r.unit(), middle(memoryOf)/1e6, slope(of, memoryOf)/1e3, r.unit(), len(of))
	}
	return text.String()
}

// median of values, which it sorts; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
