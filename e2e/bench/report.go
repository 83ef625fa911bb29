// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Results are all measurements of one report.
type Results struct {
	Date     string `json:"date"`
	Machine  string `json:"machine"`
	Software string `json:"software"`

	Resize     *Changes  `json:"resize,omitempty"`
	Slow       *Changes  `json:"slow,omitempty"`
	Recovery   *Recovery `json:"recovery,omitempty"`
	Cost       *Cost     `json:"cost,omitempty"`
	Rendezvous string    `json:"rendezvous,omitempty"`
}

func (r *Results) describeMachine(ctx context.Context, o *options) error {
	model := "unknown processor"
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(cpuinfo)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	r.Machine = fmt.Sprintf("%d cores, %s", runtime.NumCPU(), model)
	out, err := exec.CommandContext(ctx, filepath.Join(o.root, ".venv/bin/python"), "-c",
		`import horovod, platform, torch; print(f"Horovod {horovod.__version__}, PyTorch {torch.__version__} (CPU, Gloo), Python {platform.python_version()}")`).Output()
	if err != nil {
		return fmt.Errorf("ask Python for its versions: %w", err)
	}
	r.Software = strings.TrimSpace(string(out)) + ", " + runtime.Version()
	return nil
}

// write writes the report as Markdown.
func (r *Results) write(w *bytes.Buffer) {
	fmt.Fprintf(w, `# Benchmarks

Kolo's driver beside Horovod's own launcher: the same script, the same flags, the same machine, in turns within one run.
Written by `+"`make bench`"+` on %s; do not edit.

- machine: %s; other work may have gone on beside the measurement
- software: %s
- medians, with the fastest and slowest in brackets and the number of measurements; all times in seconds unless said otherwise
- **gap**: no rank trains, from the last step of the old ring to the end of the first step of the new one (a step takes 0.05 s)
- **lateness**: from the change of the host list, or the kill, to that first step
- **ratio**: horovodrun's median divided by Kolo's

`, r.Date, r.Machine, r.Software)
	if r.Resize != nil {
		fmt.Fprintf(w, "## Resizing\n\n")
		r.Resize.write(w)
	}
	if r.Slow != nil {
		fmt.Fprintf(w, "## Resizing when a process needs %.0f s longer to start\n\n", slowImport.Seconds())
		r.Slow.write(w)
	}
	if r.Recovery != nil {
		r.Recovery.write(w)
	}
	if r.Cost != nil {
		r.Cost.write(w)
	}
	if r.Rendezvous != "" {
		fmt.Fprintf(w, "## Rendezvous of simulated ranks\n\n%s\n", strings.TrimSpace(r.Rendezvous))
	}
}

func (c *Changes) write(w *bytes.Buffer) {
	fmt.Fprintf(w, "| change | gap, horovodrun | gap, Kolo | ratio | lateness, horovodrun | lateness, Kolo |\n|---|---|---|---|---|---|\n")
	var done []string
	for i := 1; i < len(route); i++ {
		name := fmt.Sprintf("%d→%d", route[i-1], route[i])
		if slices.Contains(done, name) {
			continue
		}
		done = append(done, name)
		gap := func(c Change) float64 { return c.Gap }
		late := func(c Change) float64 { return c.Lateness }
		theirs, ours := c.By[upstream.Name][name], c.By[kolo.Name][name]
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", name,
			spread(pick(theirs, gap), 2), spread(pick(ours, gap), 2), ratio(pick(theirs, gap), pick(ours, gap)),
			spread(pick(theirs, late), 2), spread(pick(ours, late), 2))
	}
	fmt.Fprintln(w)
	for _, l := range launchers {
		if c.By[l.Name] == nil {
			continue
		}
		fmt.Fprintf(w, "- %s: %d changes never came; %d samples were trained on twice within an epoch\n", l.Name, c.Lost[l.Name], c.Repeated[l.Name])
	}
	fmt.Fprintf(w, `
horovodrun announces a change that only removes processes as a removal, on which ElasticSampler does not divide what is left of the epoch again:
hence samples that are used twice. Kolo always has it divided again.

`)
}

func (r *Recovery) write(w *bytes.Buffer) {
	fmt.Fprintf(w, "## SIGKILL of one of four ranks\n\nFour hosts with one slot each, a commit each step, each launcher with its defaults.\n\n")
	fmt.Fprintf(w, "| | horovodrun | Kolo | ratio |\n|---|---|---|---|\n")
	theirs, ours := r.Seconds[upstream.Name], r.Seconds[kolo.Name]
	fmt.Fprintf(w, "| from the kill to the next ring's first step | %s | %s | %s |\n", spread(theirs, 2), spread(ours, 2), ratio(theirs, ours))
	fmt.Fprintf(w, "| jobs lost | %d | %d | |\n\n", r.Failed[upstream.Name], r.Failed[kolo.Name])
}

func (c *Cost) write(w *bytes.Buffer) {
	fmt.Fprintf(w, "## What the launcher costs while nothing changes\n\nRanks that do nothing between steps but compute, %d steps each time. One rank can also be started by hand.\n\n", costSteps)
	fmt.Fprintf(w, "| | no launcher | horovodrun | Kolo |\n|---|---|---|---|\n")
	fmt.Fprintf(w, "| one step of one rank, ms | %s | %s | %s |\n\n",
		spread(c.AloneMS[none.Name], 3), spread(c.AloneMS[upstream.Name], 3), spread(c.AloneMS[kolo.Name], 3))
	fmt.Fprintf(w, "Under either launcher Horovod runs in its elastic mode (HOROVOD_ELASTIC); started by hand it does not.\n\n")
	fmt.Fprintf(w, "| two ranks | horovodrun | Kolo | ratio |\n|---|---|---|---|\n")
	row := func(what string, by map[string][]float64, digits int) {
		theirs, ours := by[upstream.Name], by[kolo.Name]
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", what, spread(theirs, digits), spread(ours, digits), ratio(theirs, ours))
	}
	row("one step, ms", c.StepMS, 2)
	row("memory of the launcher, MB", c.MemoryMB, 1)
	row("of it anonymous (not the program itself), MB", c.AnonymousMB, 1)
	row("processor, % of a core", c.ProcessorPercent, 1)
	fmt.Fprintf(w, "\nKolo's launcher is one program with the driver and Nomad's executor. On a node, where the others run too, an agent takes what is its\n"+
		"own and a third of the program's pages; `make e2e RUN='TestScale$'` prints it.\n\n")
}

func pick(changes []Change, value func(Change) float64) []float64 {
	var values []float64
	for _, c := range changes {
		values = append(values, value(c))
	}
	return values
}

// spread is "median [least, most] n".
func spread(values []float64, digits int) string {
	if len(values) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.*f [%.*f, %.*f] n=%d", digits, median(values), digits, slices.Min(values), digits, slices.Max(values), len(values))
}

func ratio(theirs, ours []float64) string {
	if len(theirs) == 0 || len(ours) == 0 || median(ours) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", median(theirs)/median(ours))
}
