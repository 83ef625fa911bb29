// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// A role is the part of a process in a job.
type role string

const (
	launcher role = "launcher" // including its agents
	trainer  role = "trainer"
)

// A usage holds the resources of one process while all ranks train and nothing
// changes.
type usage struct {
	Role role `json:"role"`
	PID  int  `json:"pid"`
	// Age is the number of changes so far for the launcher, and of rings for a
	// trainer. Ranks is the size of the current ring.
	Age         int `json:"age"`
	Ranks       int `json:"ranks"`
	Descriptors int `json:"descriptors"`
	Memory      int `json:"memory"` // in bytes, not shared with others
}

// usageOf measures a process; the result is zero if the process is gone.
func usageOf(r role, pid, age, ranks int) usage {
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	_, memory, _ := cluster.Process{PID: pid}.Memory()
	return usage{r, pid, age, ranks, len(open), memory}
}

// Limits for the launcher at any time: a constant, and an amount for each rank.
const (
	descriptors, rankDescriptors = 40, 12
	maxMemory                    = 64e6
)

// growth holds the usages measured whenever all ranks trained.
type growth struct {
	samples []usage
	rings   map[int]int // by process, for the part of the record that was read
	read    int
}

// look measures the launcher and the trainers now.
func (g *growth) look(t *trial, ranks int) []usage {
	if g.rings == nil {
		g.rings = map[int]int{}
	}
	for _, e := range t.Record[g.read:] {
		switch e.Kind {
		case "start":
			g.rings[e.PID] = 0 // the PID may have been another process's
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

// check returns an error if the launcher ever used too much, or if processes used
// more the older they were.
func (g *growth) check() error {
	var wrong []error
	for _, u := range g.samples {
		if u.Role == launcher && (u.Descriptors > descriptors+rankDescriptors*u.Ranks || u.Memory > maxMemory) {
			wrong = append(wrong, fmt.Errorf("the launcher of %d ranks has %d descriptors, %.1f MB", u.Ranks, u.Descriptors, float64(u.Memory)/1e6))
			break
		}
	}
	for _, t := range trends {
		if t.exceeded(g.samples) {
			wrong = append(wrong, fmt.Errorf("the %s grows: %s", t.role, t.describe(g.samples)))
		}
	}
	return errors.Join(wrong...)
}

// report returns a line for each trend.
func (g *growth) report() string {
	var text strings.Builder
	for _, t := range trends {
		fmt.Fprintf(&text, "  %s: %s\n", t.role, t.describe(g.samples))
	}
	return text.String()
}
