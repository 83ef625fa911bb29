// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// Nomad bounds few of the numbers in a job, and what one job asks for must not
// cost the others anything: sums and products of these stay far from the
// largest integer, and no policy runs through more sizes than these.
const (
	// MaxWorkers is how many workers the elastic groups of a job may have
	// together.
	MaxWorkers = 100_000
	// maxGroups is how many elastic groups a job may have: each may have
	// constraints of its own, and so a list of the nodes that meet them.
	maxGroups = 256
	// MaxDevices is how many devices one worker may hold.
	MaxDevices = 1024
	// maxWeight is the greatest weight; the least is its inverse.
	maxWeight = 1e6

	minWeight   = 1 / maxWeight
	leastWork   = 1e-6  // global steps
	maxWork     = 1e12  // global steps
	maxPriority = 32766 // the greatest job_max_priority of Nomad
	maxAmount   = 1e9   // MHz or MiB of one worker
	maxSizes    = 1000  // entries of sizes = [ ]
	maxName     = 128   // bytes of a text in a kolo block, or of a group's name; Nomad's bound for names of namespaces

	// maxAhead bounds how far from now a deadline may be, earliest how long ago.
	maxAhead = 100 * 365 * 24 * time.Hour

	maxProblems = 10  // of one job that are listed
	maxProblem  = 200 // bytes of each part of one
)

// earliest is before any job that runs.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// latest is after any job that runs.
var latest = earliest.Add(2 * maxAhead)

// Bounded returns the problems as they may be shown: not too many, and each
// without control characters and of a length that one reads.
func Bounded(all problem.List) problem.List {
	more := len(all) - maxProblems
	out := make(problem.List, 0, min(len(all), maxProblems+1))
	for _, p := range all[:min(len(all), maxProblems)] {
		// Cloned, for the job that they were cut from is large.
		out.Add(strings.Clone(plain(p.Field)), nil, strings.Clone(plain(p.Text)), strings.Clone(plain(p.Remedy)))
	}
	if more > 0 {
		out.Add("job", nil, fmt.Sprintf("there are %d more problems", more), "correct those above first")
	}
	return out
}

// plain is a text without control characters, cut where it is too long.
func plain(s string) string {
	cut := ""
	if len(s) > maxProblem {
		cut = "…"
		s = s[:maxProblem-len(cut)]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, "")) + cut
}
