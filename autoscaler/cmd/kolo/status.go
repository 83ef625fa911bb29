// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// statusCommand shows what the agent knows of all jobs.
type statusCommand struct{ remote }

// Synopsis implements cli.Command.
func (c *statusCommand) Synopsis() string { return "Show jobs, counts, and why" }

// Help implements cli.Command.
func (c *statusCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo status [options]

  Shows node pools with their policies, and every elastic job: its workers,
  what the policy wants for it and why, and its progress.

Status Options:

  -watch
    Show it again every second until interrupted.
` + remoteHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *statusCommand) AutocompleteFlags() complete.Flags {
	f := remoteCompletion()
	f["-watch"] = complete.PredictNothing
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *statusCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

// Run implements cli.Command.
func (c *statusCommand) Run(args []string) int {
	f := c.remoteFlags("status")
	watch := f.Bool("watch", false, "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	if *watch {
		c.clear = clearScreen
	}
	ctx, cancel := interruptible()
	defer cancel()
	for {
		var s api.Status
		raw, err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s)
		switch {
		case ctx.Err() != nil:
			return 0
		case err != nil && !*watch:
			return c.fail(err)
		case err != nil:
			c.UI.Error(printable(err.Error()))
		default:
			c.show(raw, func() string { return drawStatus(&s) })
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

// clearScreen moves a terminal's cursor home and clears what is below.
const clearScreen = "\x1b[H\x1b[J"

func drawStatus(s *api.Status) string {
	role := "follows"
	switch {
	case s.Leading:
		role = "leads"
	case s.Leader.Name != "":
		role = strings.TrimSpace("follows " + s.Leader.Name + " " + s.Leader.Address)
	}
	if s.Problem != "" {
		role += "; NOMAD CANNOT BE READ: " + s.Problem
	}
	if !s.Ready {
		return fmt.Sprintf("%s is still reading the cluster's state; it %s", s.Agent, role)
	}
	if s.Paused {
		role += "; ALL JOBS PAUSED"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n\n", s.Agent, role)
	rows := [][]string{{"Pool", "Policy", "Slots", "Used", "Waiting", "Note"}}
	for _, p := range s.Pools {
		note := p.Problem
		if p.Reserved > 0 {
			note = strings.TrimSpace(fmt.Sprintf("%d kept free for other jobs %s", p.Reserved, note))
		}
		rows = append(rows, []string{p.Name, p.Policy, strconv.Itoa(p.Capacity), strconv.Itoa(p.Used), strconv.Itoa(p.Waiting), note})
	}
	out.WriteString(table(rows) + "\n\n")
	rows = [][]string{{"Job", "State", "Workers", "Want", "Range", "Progress", "ETA", "Resizes", "Last gap", "Why"}}
	for i := range s.Jobs {
		rows = append(rows, statusRow(&s.Jobs[i], s.Time))
	}
	out.WriteString(table(rows))
	for i := range s.Jobs {
		for _, n := range s.Jobs[i].Notes {
			fmt.Fprintf(&out, "\n\n%s: %s.", jobName(s.Jobs[i].Namespace, s.Jobs[i].ID), n)
		}
	}
	for _, a := range s.Ineligible {
		name := jobName(a.Namespace, a.ID)
		if a.Off {
			fmt.Fprintf(&out, "\n\n%s is switched off (scaling.enabled = false, or stopped).", name)
			continue
		}
		fmt.Fprintf(&out, "\n\n%s is left alone:\n  %s", name, strings.Join(a.Problems, "\n  "))
	}
	return out.String()
}

func statusRow(j *api.JobStatus, now time.Time) []string {
	workers := strconv.Itoa(j.Running)
	if j.Running != j.Count {
		workers = fmt.Sprintf("%d→%d", j.Running, j.Count)
	}
	progress, eta, gap := "-", "-", "-"
	switch {
	case j.Total > 0 && j.Step > 0:
		progress = fmt.Sprintf("%.0f%%", 100*j.Step/j.Total)
	case j.Step > 0:
		progress = fmt.Sprintf("step %.0f", j.Step)
	}
	if !j.ETA.IsZero() {
		eta = j.ETA.Sub(now).Round(time.Second).String()
	}
	if n := len(j.Gaps); n > 0 {
		gap = fmt.Sprintf("%.2fs", j.Gaps[n-1].Seconds)
	}
	why := j.HoldReason
	if why == "" {
		why = j.Reason
	}
	if j.WriteError != "" {
		why = j.WriteError
	}
	return []string{
		jobName(j.Namespace, j.ID), j.State, workers, strconv.Itoa(j.Want), fmt.Sprintf("%d–%d", j.Min, j.Max),
		progress, eta, strconv.Itoa(j.Resizes), gap, why,
	}
}

func jobName(namespace, id string) string {
	if namespace == "" || namespace == "default" {
		return id
	}
	return namespace + "/" + id
}

// jobCommand shows one job and its history.
type jobCommand struct{ remote }

// Synopsis implements cli.Command.
func (c *jobCommand) Synopsis() string { return "Show one job and the history of its counts" }

// Help implements cli.Command.
func (c *jobCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo job [options] [<namespace>/]<job>

  Shows one elastic job, and the changes of its counts with reasons as Nomad
  keeps them (the last 20 of each group).
` + remoteHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *jobCommand) AutocompleteFlags() complete.Flags { return remoteCompletion() }

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *jobCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

// predictJobs completes the names of the jobs that the agent knows.
func (c *remote) predictJobs() complete.Predictor {
	return complete.PredictFunc(func(complete.Args) []string {
		_ = c.remoteFlags("").Parse(nil) // only sets defaults
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var s api.Status
		if _, err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s); err != nil {
			return nil
		}
		var out []string
		for i := range s.Jobs {
			out = append(out, jobName(s.Jobs[i].Namespace, s.Jobs[i].ID))
		}
		return out
	})
}

// splitJob reads [namespace/]job.
func splitJob(s string) (namespace, id string) {
	if ns, id, ok := strings.Cut(s, "/"); ok {
		return ns, id
	}
	return "default", s
}

// Run implements cli.Command.
func (c *jobCommand) Run(args []string) int {
	rest, code, ok := c.parse(c.remoteFlags("job"), args, 1, 1, c.Help())
	if !ok {
		return code
	}
	ctx, cancel := interruptible()
	defer cancel()
	ns, id := splitJob(rest[0])
	var j api.Job
	raw, err := c.call(ctx, http.MethodGet, "/v1/job", url.Values{"namespace": {ns}, "id": {id}}, nil, &j)
	if err != nil {
		return c.fail(err)
	}
	c.show(raw, func() string { return drawJob(&j) })
	return 0
}

func drawJob(j *api.Job) string {
	var out strings.Builder
	if s := j.Job; s != nil {
		rows := [][]string{
			{"Job", jobName(s.Namespace, s.ID)}, {"State", s.State}, {"Pool", s.Pool}, {"Queue", s.Queue},
			{"Workers", fmt.Sprintf("%d of %d wanted (%d to %d)", s.Running, s.Want, s.Min, s.Max)},
			{"Reason", s.Reason}, {"Waits for", s.HoldReason},
			{"Attained", fmt.Sprintf("%.0f slot-seconds", s.Attained)}, {"Resizes", strconv.Itoa(s.Resizes)},
		}
		if s.Total > 0 {
			rows = append(rows, []string{"Progress", fmt.Sprintf("step %.0f of %.0f", s.Step, s.Total)})
		}
		for _, n := range s.Notes {
			rows = append(rows, []string{"Note", n})
		}
		for _, g := range s.Gaps {
			rows = append(rows, []string{"Gap", fmt.Sprintf("%d→%d slots in %.2f s, %.0f steps lost", g.From, g.To, g.Seconds, g.Lost)})
		}
		out.WriteString(table(rows))
	}
	if a := j.Ineligible; a != nil {
		fmt.Fprintf(&out, "%s is left alone:\n  %s", jobName(a.Namespace, a.ID), strings.Join(a.Problems, "\n  "))
	}
	rows := [][]string{{"Time", "Group", "Count", "By", "Reason"}}
	for _, h := range j.History {
		by, count := "hand", fmt.Sprintf("%d→%d", h.From, h.To)
		if h.Kolo {
			by = "kolo"
		}
		if h.Error {
			count = "-"
		}
		rows = append(rows, []string{h.Time.Format(time.DateTime), h.Group, count, by, h.Message})
	}
	out.WriteString("\n\n" + table(rows))
	return out.String()
}
