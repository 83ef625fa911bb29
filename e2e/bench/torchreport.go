// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// write writes PyTorch's section.
func (t *TorchResults) write(w *bytes.Buffer, about About) {
	fmt.Fprintf(w, `## PyTorch

PyTorch in process under `+"`nomad-driver-torch run`"+` compared with torchrun: the same script (`+"`e2e/train/torch_train.py`"+`), the same machine, in turns within one run.
torchrun has one node per rank, its c10d rendezvous, a last call of 1 s, a monitor interval of 0.1 s and a checkpoint every 20 steps; Kolo commits each step.
torchft 0.2 (`+"`e2e/train/torchft_train.py`"+`) has one replica group per rank and a lighthouse that gives up a silent one after 1 s; where it was not installed, its columns are empty.
Written by `+"`make bench ONLY=torch`"+` on %s; do not edit.

- machine: %s; other work may have gone on during the measurement
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
		fmt.Fprintf(w, "### The pause against the size of the state\n\nThe state is parameters that are not trained, so that steps stay the same.\n\n")
		writeState(w, t.State, stateLaunchers, t.Broadcast)
	}
	if t.Trained != nil {
		fmt.Fprintf(w, "### The pause against the size of a state that is trained\n\nThe state is parameters, which all take part in each step's allreduce, and their momentum, as much again.\n\n")
		writeState(w, t.Trained, stateLaunchers, t.Broadcast)
	}
	if t.Restart != nil {
		t.writeRestart(w)
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
	fmt.Fprintf(w, "| change | gap, torchrun | steps done again | gap, torchft | gap, Kolo | steps done again | bare | Kolo / bare | torchrun / Kolo |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range routeChanges() {
		theirs, ours, bare := t.Resize.By[torchrun.Name][name], t.Resize.By[koloTorch.Name][name], t.Bare[name]
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name,
			spread(pick(theirs, gapOf), 2), spread(pick(theirs, againOf), 0), spread(pick(t.Resize.By[torchft.Name][name], gapOf), 2), spread(pick(ours, gapOf), 2), spread(pick(ours, againOf), 0),
			spread(bare, 2), ratio(pick(ours, gapOf), bare), ratio(pick(theirs, gapOf), pick(ours, gapOf)))
	}
	fmt.Fprintln(w)
	for _, l := range torchLaunchers {
		if t.Resize.By[l.Name] == nil {
			continue
		}
		fmt.Fprintf(w, "- %s: %d changes never came; %d samples were trained on twice within an epoch\n", l.Name, t.Resize.Lost[l.Name], t.Resize.Repeated[l.Name])
	}
	fmt.Fprintln(w)
}

func (t *TorchResults) writeRecovery(w *bytes.Buffer) {
	fmt.Fprintf(w, "### SIGKILL of some of four ranks\n\nFrom the kill to the next group's first step. Four hosts with one slot each; the host that is lost is one of two with two slots each.\n\n")
	fmt.Fprintf(w, "| | torchrun | steps done again | torchft | Kolo | steps done again | torchrun / Kolo | jobs lost (torchrun, torchft, Kolo) |\n|---|---|---|---|---|---|---|---|\n")
	row := func(what string, r *Recovery) {
		theirs, ours := torchrun.Name, koloTorch.Name
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %d, %d, %d |\n", what, spread(r.Seconds[theirs], 2), spread(r.Again[theirs], 0),
			spread(r.Seconds[torchft.Name], 2), spread(r.Seconds[ours], 2), spread(r.Again[ours], 0), ratio(r.Seconds[theirs], r.Seconds[ours]),
			r.Failed[theirs], r.Failed[torchft.Name], r.Failed[ours])
	}
	row("rank 3", t.Recovery)
	row("rank 0", t.LeadRecovery)
	if t.HostRecovery != nil {
		row("all ranks of a host", t.HostRecovery)
	}
	fmt.Fprintln(w)
}

func (t *TorchResults) writeRestart(w *bytes.Buffer) {
	fmt.Fprintf(w, "### A script for torchrun, unchanged\n\nThe same script without commits, with a checkpoint of 1 MB every 20 steps: `mode = \"restart\"` starts the next processes next to the old ones, which end with their next checkpoint.\n\n")
	fmt.Fprintf(w, "| change | gap, torchrun | steps done again | gap, Kolo | steps done again | ratio |\n|---|---|---|---|---|---|\n")
	for _, name := range changesOf(restartRoute) {
		theirs, ours := t.Restart.By[torchrun.Name][name], t.Restart.By[koloRestart.Name][name]
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", name, spread(pick(theirs, gapOf), 2), spread(pick(theirs, againOf), 0),
			spread(pick(ours, gapOf), 2), spread(pick(ours, againOf), 0), ratio(pick(theirs, gapOf), pick(ours, gapOf)))
	}
	fmt.Fprintf(w, "\nChanges that never came: torchrun %d, Kolo %d.\n\n", t.Restart.Lost[torchrun.Name], t.Restart.Lost[koloRestart.Name])
}

func (t *TorchResults) writeSteps(w *bytes.Buffer) {
	fmt.Fprintf(w, "### What a commit costs\n\nMedians of steps, in milliseconds; the state is what is trained and as much again of the optimizer. Steps only compute,\n"+
		"except for those of a certain length, which then sleep, as while a GPU computes. The last column is the difference of the medians as a part of\n"+
		"those steps, and of 50 ms where they are shorter.\n\n")
	fmt.Fprintf(w, "| trained | torchrun | Kolo without commits | a commit each step | difference, ms | part |\n|---|---|---|---|---|---|\n")
	for _, c := range commitCases {
		with, without := t.StepMS[c.name+", "+withCommit], t.StepMS[c.name+", "+withoutCommit]
		if len(with) == 0 || len(without) == 0 {
			continue
		}
		more := median(with) - median(without)
		fmt.Fprintf(w, "| %s | %s | %s | %s | %.2f | %.1f %% |\n", c.name,
			spread(t.StepMS[c.name+", "+torchrun.Name], 2), spread(without, 2), spread(with, 2), more, more/max(50, median(without))*100)
	}
	fmt.Fprintln(w)
}

func gapOf(c Change) float64   { return c.Gap }
func againOf(c Change) float64 { return float64(c.Again) }

// routeChanges returns the changes of the usual route.
func routeChanges() []string { return changesOf(route) }

// changesOf returns the changes of a route, each once.
func changesOf(route []int) []string {
	var names []string
	for i := 1; i < len(route); i++ {
		if name := change(route[i-1], route[i]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
