// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// write writes PyTorch's section.
func (t *TorchResults) write(w *bytes.Buffer, about About) {
	fmt.Fprintf(w, `## PyTorch

PyTorch in process under `+"`nomad-driver-torch run`"+` beside torchrun: the same script (`+"`e2e/train/torch_train.py`"+`), the same machine, in turns within one run.
torchrun has one node per rank, its c10d rendezvous, a last call of 1 s, a monitor interval of 0.1 s and a checkpoint every 20 steps; Kolo commits each step.
Written by `+"`make bench ONLY=torch`"+` on %s; do not edit.

- machine: %s; other work may have gone on beside the measurement
- software: %s

`, about.Date, about.Machine, about.Software)
	if t.Resize != nil {
		t.writeResize(w)
	}
	if t.Slow != nil {
		fmt.Fprintf(w, "When a process needs %.0f s longer to start, gaps of Kolo:", slowImport.Seconds())
		for _, name := range routeChanges() {
			fmt.Fprintf(w, " %s %s;", name, spread(pick(t.Slow.By[koloTorch.Name][name], gapOf), 2))
		}
		fmt.Fprintf(w, " %d changes never came.\n\n", t.Slow.Lost[koloTorch.Name])
	}
	if t.Recovery != nil && t.LeadRecovery != nil {
		t.writeRecovery(w)
	}
	if t.State != nil {
		t.writeState(w)
	}
	if t.StepMS != nil {
		t.writeSteps(w)
	}
	if t.Store != "" {
		fmt.Fprintf(w, "### Groups of simulated ranks\n\n%s\n\n", strings.TrimSpace(t.Store))
	}
}

func (t *TorchResults) writeResize(w *bytes.Buffer) {
	fmt.Fprintf(w, "### Resizing in process\n\n\"Bare\" is PyTorch alone: the same processes destroy and form the group in place, with no one to decide it and no state to keep.\n\n")
	fmt.Fprintf(w, "| change | gap, torchrun | steps done again | gap, Kolo | steps done again | bare | Kolo / bare | torchrun / Kolo |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range routeChanges() {
		theirs, ours, bare := t.Resize.By[torchrun.Name][name], t.Resize.By[koloTorch.Name][name], t.Bare[name]
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", name,
			spread(pick(theirs, gapOf), 2), spread(pick(theirs, againOf), 0), spread(pick(ours, gapOf), 2), spread(pick(ours, againOf), 0),
			spread(bare, 2), ratio(pick(ours, gapOf), bare), ratio(pick(theirs, gapOf), pick(ours, gapOf)))
	}
	fmt.Fprintln(w)
	for _, l := range torchLaunchers {
		fmt.Fprintf(w, "- %s: %d changes never came; %d samples were trained on twice within an epoch\n", l.Name, t.Resize.Lost[l.Name], t.Resize.Repeated[l.Name])
	}
	fmt.Fprintln(w)
}

func (t *TorchResults) writeRecovery(w *bytes.Buffer) {
	fmt.Fprintf(w, "### SIGKILL of one of four ranks\n\nFrom the kill to the next group's first step. Four hosts with one slot each.\n\n")
	fmt.Fprintf(w, "| | torchrun | steps done again | Kolo | steps done again | ratio | jobs lost |\n|---|---|---|---|---|---|---|\n")
	row := func(what string, r *Recovery) {
		theirs, ours := torchrun.Name, koloTorch.Name
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %d, %d |\n", what, spread(r.Seconds[theirs], 2), spread(r.Again[theirs], 0),
			spread(r.Seconds[ours], 2), spread(r.Again[ours], 0), ratio(r.Seconds[theirs], r.Seconds[ours]), r.Failed[theirs], r.Failed[ours])
	}
	row("rank 3", t.Recovery)
	row("rank 0", t.LeadRecovery)
	fmt.Fprintln(w)
}

func (t *TorchResults) writeState(w *bytes.Buffer) {
	fmt.Fprintf(w, "### The pause against the size of the state\n\nKolo, gaps; the state is parameters that are not trained, so that steps stay the same. "+
		"A plain broadcast is of as many bytes in one piece, between two processes that do nothing else.\n\n")
	fmt.Fprintf(w, "| state | plain broadcast | 1→2 | (1→2) / broadcast | 1→3 | 3→2 | 2→1 |\n|---|---|---|---|---|---|---|\n")
	for _, mb := range stateMB {
		c := t.State[mb]
		if c == nil {
			continue
		}
		plain := t.Broadcast[strconv.Itoa(mb)]
		gaps := func(from, to int) []float64 { return pick(c.By[koloTorch.Name][change(from, to)], gapOf) }
		fmt.Fprintf(w, "| %d MiB | %s | %s | %s | %s | %s | %s |\n", mb, spread(plain, 2), spread(gaps(1, 2), 2), ratio(gaps(1, 2), plain),
			spread(gaps(1, 3), 2), spread(gaps(3, 2), 2), spread(gaps(2, 1), 2))
	}
	fmt.Fprintln(w)
}

func (t *TorchResults) writeSteps(w *bytes.Buffer) {
	fmt.Fprintf(w, "### What a commit costs\n\nMedians of steps that do no more than compute, in milliseconds; the state is what is trained and as much again of the optimizer.\n"+
		"The last column is the difference of the medians as a part of steps of 50 ms.\n\n")
	fmt.Fprintf(w, "| trained | torchrun | Kolo without commits | a commit each step | difference, ms | of 50 ms |\n|---|---|---|---|---|---|\n")
	for _, c := range commitCases {
		with, without := t.StepMS[c.name+", "+withCommit], t.StepMS[c.name+", "+withoutCommit]
		if len(with) == 0 || len(without) == 0 {
			continue
		}
		more := median(with) - median(without)
		fmt.Fprintf(w, "| %s | %s | %s | %s | %.2f | %.1f %% |\n", c.name,
			spread(t.StepMS[c.name+", "+torchrun.Name], 2), spread(without, 2), spread(with, 2), more, more/50*100)
	}
	fmt.Fprintln(w)
}

func gapOf(c Change) float64   { return c.Gap }
func againOf(c Change) float64 { return float64(c.Again) }

// routeChanges are the changes of the route, each once.
func routeChanges() []string {
	var names []string
	for i := 1; i < len(route); i++ {
		if name := change(route[i-1], route[i]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
