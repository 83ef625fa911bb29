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

// Nomad bounds few of the numbers in a job, and one job's requests must not cost
// other jobs anything. Sums and products within these limits stay far below the
// largest integer, and no policy iterates over more sizes.
const (
	// MaxWorkers is the largest total number of workers of a job's elastic groups.
	MaxWorkers = 100_000
	// maxGroups is the largest number of elastic groups of a job. Each may have
	// separate constraints, and thus a separate list of feasible nodes.
	maxGroups = 256
	// MaxDevices is the largest number of devices of one worker.
	MaxDevices = 1024
	// maxWeight is the greatest weight; the least weight is its inverse.
	maxWeight = 1e6

	minWeight   = 1 / maxWeight
	leastWork   = 1e-6  // global steps
	maxWork     = 1e12  // global steps
	maxPriority = 32766 // the greatest job_max_priority of Nomad
	maxAmount   = 1e9   // MHz or MiB of one worker
	maxSizes    = 1000  // entries of sizes = [ ]
	maxName     = 128   // bytes of a text in a kolo block, or of a group's name; Nomad's limit for names of namespaces

	// maxAhead bounds how far in the future a deadline may be.
	maxAhead = 100 * 365 * 24 * time.Hour

	maxProblems = 10  // listed for one job
	maxProblem  = 200 // bytes of each part of a problem
)

// earliest is before any job that runs, and the earliest deadline.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// latest is after any job that runs.
var latest = earliest.Add(2 * maxAhead)

// Bounded returns the problems in a form to show to users: a limited number, each
// with readable length and without control characters.
func Bounded(all problem.List) problem.List {
	more := len(all) - maxProblems
	out := make(problem.List, 0, min(len(all), maxProblems+1))
	for _, p := range all[:min(len(all), maxProblems)] {
		// Cloned, because the job that the texts are part of is large.
		out.Add(strings.Clone(plain(p.Field)), nil, strings.Clone(plain(p.Text)), strings.Clone(plain(p.Remedy)))
	}
	if more > 0 {
		out.Add("job", nil, fmt.Sprintf("there are %d more problems", more), "correct those above first")
	}
	return out
}

// plain returns a text without control characters, truncated if it is too long.
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
