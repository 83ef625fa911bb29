// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// What the launcher may have while ranks train and nothing changes: its own, and
// what it has for each rank.
const (
	descriptors, rankDescriptors = 40, 12
	maxMemory                    = 64e6 // bytes that it does not share
)

// growth is what the launcher had whenever all ranks trained.
type growth struct {
	first, last usage
	wrong       error
}

// usage is what one process has.
type usage struct{ descriptors, memory int }

func (u usage) String() string {
	return fmt.Sprintf("%d descriptors, %.1f MB", u.descriptors, float64(u.memory)/1e6)
}

func (g growth) String() string { return fmt.Sprintf("%s, then %s", g.first, g.last) }

// look takes in what the launcher has now.
func (g *growth) look(pid, ranks int) {
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	_, memory, _ := cluster.Process{PID: pid}.Memory()
	g.last = usage{len(open), memory}
	if g.first == (usage{}) {
		g.first = g.last
	}
	if g.last.descriptors > descriptors+rankDescriptors*ranks || memory > maxMemory {
		g.wrong = fmt.Errorf("the launcher of %d ranks has %s", ranks, g.last)
	}
}

// check returns an error if it once had too much.
func (g *growth) check() error { return g.wrong }
