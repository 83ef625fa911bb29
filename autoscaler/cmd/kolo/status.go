// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// statusCommand shows the autoscaler's knowledge of all jobs.
type statusCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *statusCommand) Synopsis() string { return "Show jobs, counts, and why" }

// Help implements cli.Command.
func (c *statusCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo status [options]

  Shows node pools with their policies, and every elastic job: its workers,
  what the policy wants for it and why, and its progress.

Status Options:

  -filter=<expression>
    Show only the jobs for which the expression is true. It is in the language
    of Nomad's -filter, with the fields id, namespace, pool, queue, tenant, kind,
    state, waits (the code of the reason), count, running, want, size, resizes
    and idle: 'state == "waiting" and id matches "^exp-"'.

  -o=<format>
    table, wide (more columns), name (only the names, one a line), or json.
    Default: table

  -sort=<column>
    Sort the jobs by name, state, pool, queue, workers, progress, resizes,
    attained, wasted, idle or submitted: texts in ascending order, numbers and
    times in descending order. A minus sign reverses it: -sort=-progress.

  -watch
    Show it again every second until interrupted.
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *statusCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-watch"], f["-filter"] = complete.PredictNothing, complete.PredictAnything
	f["-o"], f["-sort"] = complete.PredictSet(formats...), complete.PredictSet(slices.Sorted(maps.Keys(orders))...)
	return f
}

// Run implements cli.Command.
func (c *statusCommand) Run(args []string) int {
	f := c.apiFlags("status")
	watch, filter, order := f.Bool("watch", false, ""), f.String("filter", "", ""), f.String("sort", "", "")
	format := f.String("o", "table", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	chosen, err := parseSelection(*filter, *order)
	if err == nil && !slices.Contains(formats, *format) {
		err = badFlag("-o=%s: write one of %s", *format, strings.Join(formats, ", "))
	}
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	c.json = c.json || *format == "json"
	if *watch {
		c.clear = clearScreen
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	for {
		var s api.Status
		raw, err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s)
		if err == nil {
			err = chosen.apply(&s)
		}
		switch {
		case ctx.Err() != nil:
			return 0
		case err != nil && !*watch:
			return c.fail(err)
		case err != nil:
			c.UI.Error(printable.Text(err.Error()))
		case c.json && chosen != selection{}:
			c.printJSON(&s)
		default:
			c.show(raw, func() string { return drawJobs(&s, *format) })
		}
		if !*watch {
			return 0
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(time.Second):
		}
	}
}

// formats are the values of -o.
var formats = []string{"table", "wide", "name", "json"}

// drawJobs returns the status in one of the text formats of -o.
func drawJobs(s *api.Status, format string) string {
	if format == "name" {
		var names []string
		for i := range s.Jobs {
			names = append(names, s.Jobs[i].JobKey.String())
		}
		return strings.Join(names, "\n")
	}
	return drawStatus(s, format == "wide")
}

// wanted describes the additional room that jobs of a pool would use, such as
// "wanted: 12 more slots (8 within one meta.rack), 2 nodes of class a100". It
// returns "" if there is none.
func wanted(p *api.PoolStatus) string {
	slots := 0
	var within, nodes []string
	for _, l := range p.Lacks {
		slots += l.Slots
		if l.Level != "" {
			within = append(within, fmt.Sprintf("%d within one %s", l.Slots, l.Level))
		}
	}
	if slots == 0 {
		return ""
	}
	out := "wanted: " + counted(slots, "more slot")
	if within != nil {
		out += " (" + strings.Join(within, ", ") + ")"
	}
	for _, k := range p.Nodes {
		if n := k.Waiting + k.Growing; n > 0 {
			of := counted(n, "node")
			if k.Class != "" {
				of += " of class " + k.Class
			}
			nodes = append(nodes, of)
		}
	}
	return strings.Join(append([]string{out}, nodes...), ", ")
}

// clearScreen moves a terminal's cursor to the top and clears everything below it.
const clearScreen = "\x1b[H\x1b[J"

// drawStatus returns the tables of pools and jobs, with more columns if wide is set.
func drawStatus(s *api.Status, wide bool) string {
	role := "follows"
	switch {
	case s.Leading:
		role = "leads"
	case s.Leader.Name == s.Autoscaler && s.Autoscaler != "":
		role = "has lost the lock that it held"
	case s.Leader.Name != "":
		role = strings.TrimSpace("follows " + s.Leader.Name + " " + s.Leader.Address)
	}
	if s.Problem != "" {
		role += "; NOMAD CANNOT BE READ: " + s.Problem
	}
	if !s.Ready {
		return stillReading(s) + "; it " + role
	}
	if s.Paused {
		role += "; ALL JOBS PAUSED"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n\n", s.Autoscaler, role)
	rows := [][]string{{"Pool", "Policy", "Slots", "Used", "Waiting", "Note"}}
	for _, p := range s.Pools {
		note := p.Problem
		if p.Capacity == 0 && len(p.Nodes) > 0 {
			note = strings.TrimSpace("no node has a slot; check device or cpu_slot of the pool " + note)
		}
		if p.Spares > 0 {
			note = strings.TrimSpace(fmt.Sprintf("%d of the used slots held by spares %s", p.Spares, note))
		}
		if p.Reserved > 0 {
			note = strings.TrimSpace(fmt.Sprintf("%d kept free for other jobs %s", p.Reserved, note))
		}
		if lacks := wanted(&p); lacks != "" {
			note = strings.TrimSpace(lacks + " " + note)
		}
		rows = append(rows, []string{p.Name, p.Policy, strconv.Itoa(p.Capacity), strconv.Itoa(p.Used), strconv.Itoa(p.Waiting), note})
	}
	out.WriteString(table(rows) + "\n\n")
	rows = [][]string{{"Job", "State", "Workers", "Want", "Range", "Progress", "ETA", "Resizes", "Last gap", "Why"}}
	for i := range s.Jobs {
		rows = append(rows, statusRow(&s.Jobs[i], s.Time))
	}
	if wide {
		widen(rows, s.Jobs)
	}
	out.WriteString(table(rows))
	for i := range s.Jobs {
		for _, n := range s.Jobs[i].Notes {
			fmt.Fprintf(&out, "\n\n%s: %s.", s.Jobs[i].JobKey, n)
		}
	}
	for _, b := range s.Blocked {
		fmt.Fprintf(&out, "\n\n%s has no kolo block and waits for %s: %s: %s.", b.JobKey, counted(b.Slots, "slot"), b.Reason, b.Sentence)
	}
	for _, a := range s.Ineligible {
		if a.Off {
			fmt.Fprintf(&out, "\n\n%s is switched off (scaling.enabled = false, or stopped).", a.JobKey)
			continue
		}
		fmt.Fprintf(&out, "\n\nKolo does not scale %s because of errors:\n  %s", a.JobKey, strings.Join(a.Problems, "\n  "))
	}
	return out.String()
}

// withSpares returns a number of workers and of their spares: 8+1.
func withSpares(workers, spares int) string {
	if spares == 0 {
		return strconv.Itoa(workers)
	}
	return fmt.Sprintf("%d+%d", workers, spares)
}

func statusRow(j *api.JobStatus, now time.Time) []string {
	workers := strconv.Itoa(j.Running)
	if j.Running != j.Count {
		workers = fmt.Sprintf("%d→%d", j.Running, j.Count)
	}
	if j.Spares > 0 {
		workers += fmt.Sprintf("+%d", j.Spares)
	}
	progress, eta, gap := "-", "-", "-"
	switch {
	case j.State == api.StateComplete:
		progress = "complete" // regardless of the step in its last report
	case j.Progress > 0:
		progress = fmt.Sprintf("%.0f%%", 100*j.Progress)
	case j.Step > 0:
		progress = fmt.Sprintf("step %.0f", j.Step)
	}
	if !j.ETA.IsZero() {
		eta = j.ETA.Sub(now).Round(time.Second).String()
	}
	if n := len(j.Gaps); n > 0 {
		gap = "unknown"
		if s := j.Gaps[n-1].Seconds; s != nil {
			gap = fmt.Sprintf("%.2fs", *s)
		}
	}
	state := j.State
	switch {
	case j.Hangs > 0:
		state += ", hangs for " + secondsText(j.Hangs)
	case j.Idle > 0:
		state += ", idle for " + secondsText(j.Idle)
	}
	return []string{
		j.JobKey.String(), state, workers, strconv.Itoa(j.Want), fmt.Sprintf("%d–%d", j.Min, j.Max),
		progress, eta, strconv.Itoa(j.Resizes), gap, cmp.Or(j.WriteError, j.HoldReason, j.Reason),
	}
}

// widen inserts columns before the last one, the reason. The first of rows has the headings.
func widen(rows [][]string, jobs []api.JobStatus) {
	add := func(i int, cells ...string) { rows[i] = slices.Insert(rows[i], len(rows[i])-1, cells...) }
	add(0, "Pool", "Queue", "Slots", "Step time", "Loss", "Productive", "Expected start")
	for i := range jobs {
		j := &jobs[i]
		step, loss, productive := measuredCells(j)
		start := "-"
		if j.Waits != nil {
			start = expectedStart(j.Waits.Expected)
		}
		add(i+1, j.Pool, j.Queue, strconv.Itoa(j.Slots()), step, loss, productive, start)
	}
}

// measuredCells returns the cells with a job's step time, loss and productive share.
func measuredCells(j *api.JobStatus) (step, loss, productive string) {
	step, loss, productive = "-", "-", "-"
	if t, ok := stepTime(j); ok {
		step = fmt.Sprintf("%.3gs", t)
	}
	if j.Loss != nil {
		loss = fmt.Sprintf("%.4g", *j.Loss)
	}
	if j.Usage != nil {
		productive = shareText(j.Usage.Share)
	}
	return step, loss, productive
}

// stepTime returns the measured seconds of a step at the job's present size. ok is false if they are
// unknown.
func stepTime(j *api.JobStatus) (seconds float64, ok bool) {
	for _, p := range j.StepTimes {
		if p.Size == j.Running {
			return p.StepTime, true
		}
	}
	return 0, false
}
