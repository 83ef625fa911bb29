// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// write writes the report's section about whole runs.
func (r *RunResults) write(w *bytes.Buffer, about About) {
	fmt.Fprintf(w, `## Whole runs

The share of a run's slot-seconds that went into steps which were kept, while things happen: **productive**. Four hosts with one slot each, %d steps of %d
samples, which the ranks share: a step takes %g s with four ranks and %g s with two. Slots that were taken away do not count as held; what a run loses is the time
in which slots that it has do not train. Runs without events have %d steps. The events have a seed (%d) and are the same for all. Measured from the first step on; the start has a column of its own.

- **Without launcher** is the same share for %d steps of the script alone: the ranks are started by hand, nothing happens, and nothing is saved. It is measured directly before
  and after each row, and their mean is shown: what the machine allowed at that time.
- **Load** is the mean number of threads that used a CPU or waited for one during the run, those of the run included.
  **Still** is the time in which the benchmark itself did not run at all for half a second or longer, as if the machine had been stopped. It is part of what is lost.
- A hang is a rank that SIGSTOP holds. If training does not go on within %s, the rank is killed by hand, and the event does not count as survived.
- Kolo runs with `+"`stall_timeout = \"auto\"`"+`, which is not the default; everything else of it is. torchrun is shown with PyTorch's defaults and with the fastest settings.
- A straggler is stopped and continued in turns for %s. All ranks wait for it, so it costs up to half of their time: %.0f slot-seconds of four. No launcher here leaves it out.
- A slow newcomer takes %s longer to start.
- A lost node is killed and replaced after %s. Hosts without any network are not simulated: all hosts are this machine.
- Scripts for torchrun write a checkpoint after as many steps as Young's formula gives for a checkpoint of %.1f ms and the mean time between events.
- What is lost between two steps counts for the first event between them, or else for the last event before.
- Samples are those that were never used or used too often, as the weights of the model count them. torchft's script draws samples at random.

Written by `+"`make bench ONLY=run`"+` on %s; do not edit.

- machine: %s; other work may have gone on during the measurement
- software: %s

`, r.Steps, stepSamples, fullStep.Seconds(), 2*fullStep.Seconds(), stepsWithout(r.Steps), r.Seed, idealSteps, patience, slowFor, fullSlots*slowFor.Seconds()/2, slowImport, nodeAway, r.CheckpointSeconds*1000, about.Date, about.Machine, about.Software)
	for _, every := range r.schedules() {
		r.table(w, every)
		if every > 0 && every == r.schedules()[0] {
			fmt.Fprintf(w, "![Steps over time](%s)\n\nSteps over time, one line for each launcher, with the events; the grey line is a run in which nothing is lost.\n\n", runPicture)
		}
	}
}

// runPicture is the picture's file, next to the report.
const runPicture = "runs.svg"

// schedules returns the mean times between events, the shortest first and none last.
func (r *RunResults) schedules() []time.Duration {
	var out []time.Duration
	for text := range r.By {
		every, err := time.ParseDuration(text)
		if err == nil {
			out = append(out, every)
		}
	}
	slices.Sort(out)
	if len(out) > 0 && out[0] == 0 {
		out = append(out[1:], 0)
	}
	return out
}

func (r *RunResults) table(w *bytes.Buffer, every time.Duration) {
	by := r.By[every.String()]
	schedule := newSchedule(r.Seed, every, time.Duration(r.Steps)*fullStep)
	if every == 0 {
		fmt.Fprintf(w, "### Nothing happens\n\n")
	} else {
		fmt.Fprintf(w, "### One event in %s\n\nSeconds after the first step: %s.\n\n", every, describe(schedule))
	}
	fmt.Fprintf(w, "| | productive | without launcher | load | still, s | start, s | run, s | steps repeated | samples never used, used too often | events survived | slot-seconds lost, by what happened before |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range runLaunchers {
		run := by[l.Name]
		if run == nil {
			continue
		}
		name := l.Name
		if l.checkpoints {
			name += fmt.Sprintf(", a checkpoint every %d steps", checkpointEvery(r.CheckpointSeconds, every))
		}
		samples := "–"
		if run.Samples != nil {
			samples = fmt.Sprintf("%d, %d of %d epochs", run.Samples.Unused, run.Samples.Again, run.Samples.Epochs)
		}
		wall := fmt.Sprintf("%.1f", run.Wall)
		if run.Ended != "" {
			wall = fmt.Sprintf("ended at %.0f with %d steps: %s", run.Wall, run.Steps, run.Ended)
		}
		fmt.Fprintf(w, "| %s | %.1f %% | %.1f %% | %.1f | %.1f | %.1f | %s | %d | %s | %d of %d | %s |\n", name, run.Productive()*100, run.Ideal*100, run.Running, run.Still, run.Start, wall, run.Again, samples, run.Survived(), len(run.Events), run.losses())
	}
	fmt.Fprintln(w)
}

// losses lists the causes of lost time, the largest first.
func (r *Run) losses() string {
	var causes []cause
	for c := range r.Lost {
		causes = append(causes, c)
	}
	slices.SortFunc(causes, func(a, b cause) int {
		return cmp.Or(cmp.Compare(r.Lost[b], r.Lost[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, c := range causes {
		parts = append(parts, fmt.Sprintf("%s %.1f", c, r.Lost[c]))
	}
	return strings.Join(parts, "; ")
}
