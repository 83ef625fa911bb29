// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// Results holds all measurements of one report.
type Results struct {
	// About describes what was measured, by framework, or by the part if it has its own section.
	About map[string]About `json:"about"`

	Resize   *Changes  `json:"resize,omitempty"`
	Slow     *Changes  `json:"slow,omitempty"`
	Recovery *Recovery `json:"recovery,omitempty"`
	// State holds measurements with frozen state, by its size in MiB.
	State      map[int]*Changes `json:"state,omitempty"`
	Cost       *Cost            `json:"cost,omitempty"`
	Rendezvous string           `json:"rendezvous,omitempty"`

	Torch TorchResults `json:"torch"`
	Run   *RunResults  `json:"run,omitempty"`

	Sharded []ShardedChange `json:"sharded,omitempty"`
}

// About states when, where and with which versions a framework was measured.
type About struct {
	Date     string `json:"date"`
	Machine  string `json:"machine"`
	Software string `json:"software"`
}

// versions are the programs that print a framework's versions, by its name.
var versions = map[string]string{
	train.Horovod.Name: `import horovod, platform, torch; print(f"Horovod {horovod.__version__}, PyTorch {torch.__version__} (CPU, Gloo), Python {platform.python_version()}")`,
	train.Torch.Name:   `import platform, torch; print(f"PyTorch {torch.__version__} (CPU, Gloo), Python {platform.python_version()}")`,
}

// describe fills in the versions that a part is measured with.
func (r *Results) describe(ctx context.Context, o *options, p part) error {
	f, name := p.framework, p.framework.Name
	if p.alone {
		name = p.name
	}
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
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, o.python(f), "-c", versions[f.Name]).Output()
	if err != nil {
		return fmt.Errorf("ask Python for its versions: %w", err)
	}
	r.About[name] = About{
		Date:     time.Now().UTC().Format("2006-01-02"),
		Machine:  fmt.Sprintf("%d cores, %s, with a load of %s in the 15 minutes before", runtime.NumCPU(), model, strings.Fields(string(load))[2]),
		Software: strings.TrimSpace(string(out)) + ", " + runtime.Version(),
	}
	return nil
}

// kept marks the beginning of the part of the page that other programs measure and
// write. torchBegin to torchEnd is PyTorch's section in it.
const (
	kept       = "\n<!-- not written by make bench, which keeps what follows -->\n"
	torchBegin = "<!-- make bench ONLY=torch: begin -->\n"
	torchEnd   = "<!-- make bench ONLY=torch: end -->\n"
	runBegin   = "<!-- make bench ONLY=run: begin -->\n"
	runEnd     = "<!-- make bench ONLY=run: end -->\n"

	shardedBegin = "<!-- make bench ONLY=sharded: begin -->\n"
	shardedEnd   = "<!-- make bench ONLY=sharded: end -->\n"
)

// page returns the old page with its measurements replaced by the new ones.
func (r *Results) page(old []byte) []byte {
	head, whole := cutSection(string(old), runBegin, runEnd)
	rest := ""
	if i := strings.Index(head, kept); i >= 0 {
		head, rest = head[:i], head[i:]
	}
	var w bytes.Buffer
	if _, ok := r.About[train.Horovod.Name]; ok {
		r.write(&w)
		head = w.String()
	}
	if about, ok := r.About[train.Torch.Name]; ok {
		w.Reset()
		r.Torch.write(&w, about)
		rest = putSection(rest, torchBegin, w.String(), torchEnd)
	}
	if r.Sharded != nil {
		w.Reset()
		writeSharded(&w, r.Sharded, r.About["sharded"])
		rest = putSection(rest, shardedBegin, w.String(), shardedEnd)
	}
	if r.Run != nil {
		w.Reset()
		r.Run.write(&w, r.About["run"])
		whole = runBegin + w.String() + runEnd
	}
	// Whole runs come first, because they are closest to what users experience.
	if i := strings.Index(head, "\n## "); whole != "" && i >= 0 {
		head = head[:i+1] + whole + "\n" + strings.TrimLeft(head[i+1:], "\n")
	} else {
		head += whole
	}
	return []byte(head + rest)
}

// putSection replaces a section of the kept part of a page. It puts the section first if
// that part does not have it.
func putSection(rest, begin, text, end string) string {
	section := begin + text + end
	i, j := strings.Index(rest, begin), strings.Index(rest, end)
	switch {
	case i >= 0 && j > i:
		return rest[:i] + section + rest[j+len(end):]
	case rest == "":
		return kept + "\n" + section
	default:
		return kept + "\n" + section + strings.TrimPrefix(rest, kept)
	}
}

// cutSection returns a page without a section, and the section including its marks. The
// section is empty if the page does not have it.
func cutSection(page, begin, end string) (rest, section string) {
	i, j := strings.Index(page, begin), strings.Index(page, end)
	if i < 0 || j < i {
		return page, ""
	}
	j += len(end)
	return page[:i] + strings.TrimLeft(page[j:], "\n"), page[i:j]
}

func (r *Results) write(w *bytes.Buffer) {
	about := r.About[train.Horovod.Name]
	fmt.Fprintf(w, `# Benchmarks

Kolo's driver compared with Horovod's own launcher: the same script, the same flags, the same machine, in turns within one run. [PyTorch](#pytorch) has a section of its own.
Written by `+"`make bench`"+` on %s; do not edit.

- machine: %s; other work may have gone on during the measurement
- software: %s
- medians, with the fastest and slowest in brackets and the number of measurements; all times in seconds unless said otherwise
- **gap**: no rank trains, from the last step of the old ring to the end of the first step of the new one (a step takes 0.05 s)
- **lateness**: from the change of the host list, or the kill, to that first step
- **ratio**: horovodrun's median divided by Kolo's

`, about.Date, about.Machine, about.Software)
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
	if r.State != nil {
		fmt.Fprintf(w, "## The pause against the size of the state\n\nThe state is parameters that are not trained, so that steps stay the same.\n\n")
		writeState(w, r.State, launchers, r.Torch.Broadcast)
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
	for _, name := range routeChanges() {
		late := func(c Change) float64 { return c.Lateness }
		theirs, ours := c.By[horovodrun.Name][name], c.By[kolo.Name][name]
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", name,
			spread(pick(theirs, gapOf), 2), spread(pick(ours, gapOf), 2), ratio(pick(theirs, gapOf), pick(ours, gapOf)),
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
	theirs, ours := r.Seconds[horovodrun.Name], r.Seconds[kolo.Name]
	fmt.Fprintf(w, "| from the kill to the next ring's first step | %s | %s | %s |\n", spread(theirs, 2), spread(ours, 2), ratio(theirs, ours))
	fmt.Fprintf(w, "| jobs lost | %d | %d | |\n\n", r.Failed[horovodrun.Name], r.Failed[kolo.Name])
}

func (c *Cost) write(w *bytes.Buffer) {
	fmt.Fprintf(w, "## What the launcher costs while nothing changes\n\nRanks that do nothing between steps but compute, %d steps each time. One rank can also be started by hand.\n\n", costSteps)
	fmt.Fprintf(w, "| | no launcher | horovodrun | Kolo |\n|---|---|---|---|\n")
	fmt.Fprintf(w, "| one step of one rank, ms | %s | %s | %s |\n\n",
		spread(c.AloneMS[none.Name], 3), spread(c.AloneMS[horovodrun.Name], 3), spread(c.AloneMS[kolo.Name], 3))
	fmt.Fprintf(w, "Under either launcher Horovod runs in its elastic mode (HOROVOD_ELASTIC); started by hand it does not.\n\n")
	fmt.Fprintf(w, "| two ranks | horovodrun | Kolo | ratio |\n|---|---|---|---|\n")
	row := func(what string, by map[string][]float64, digits int) {
		theirs, ours := by[horovodrun.Name], by[kolo.Name]
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

// spread returns "median [least, most] n".
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
