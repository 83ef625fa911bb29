// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

const (
	// oddShown is how many groups of odd ranks kolo job shows, and callsShown how many calls of
	// each.
	oddShown, callsShown = 3, 4
)

// stallRows describes the last stall of a job: what the odd ranks did before the ring was
// broken.
func stallRows(t *api.Training) [][]string {
	if t == nil || t.Stall == nil {
		return nil
	}
	s := t.Stall
	text := fmt.Sprintf("its ring of %d made no step for %s", s.Size, secondsText(s.Seconds))
	if !s.Time.IsZero() {
		text = s.Time.Format(time.DateTime) + ": " + text
	}
	rows := [][]string{{"Last stall", text}}
	if s.Stacks == nil {
		return rows
	}
	odd := s.Stacks.Groups
	if len(odd) > 1 && !odd[len(odd)-1].Suspect {
		odd = odd[:len(odd)-1]
	}
	for i := range odd[:min(len(odd), oddShown)] {
		rows = append(rows, []string{"Was at", oddText(&odd[i])})
	}
	if n := len(odd) - oddShown + s.Stacks.Dropped; n > 0 {
		rows = append(rows, []string{"Was at", fmt.Sprintf("%d more in kolo job -json", n)})
	}
	if s.Stacks.Silent != "" {
		rows = append(rows, []string{"Was at", "ranks whose agents did not answer: " + s.Stacks.Silent})
	}
	return rows
}

// oddText describes what a group of ranks did, with their innermost calls.
func oddText(a *stacks.Alike) string {
	name := "rank " + a.Ranks
	if a.Count != 1 {
		name = "ranks " + a.Ranks
	}
	return fmt.Sprintf("%s: %s: %s", name, doing(&a.Process), callsText(&a.Process))
}

// callsText returns the innermost calls of a process, or why they are unknown.
func callsText(p *stacks.Process) string {
	main := p.Main()
	switch {
	case main == nil:
		return "stack unknown: " + cmp.Or(p.Missing, "the process ran no Python code")
	case len(main.Frames) == 0:
		return "in no Python function"
	}
	var calls []string
	for _, f := range main.Frames[:min(len(main.Frames), callsShown)] {
		calls = append(calls, fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line))
	}
	return strings.Join(calls, " < ")
}
