// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// jobCommand shows one job and its history.
type jobCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *jobCommand) Synopsis() string { return "Show one job and the history of its counts" }

// Help implements cli.Command.
func (c *jobCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo job [options] [<namespace>/]<job>

  Shows one elastic job, and the changes of its counts with reasons as Nomad
  keeps them (the last 20 of each group).
` + apiHelp)
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *jobCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

// splitJob parses [namespace/]job.
func splitJob(s string) identity.JobKey {
	if ns, id, ok := strings.Cut(s, "/"); ok {
		return identity.JobKey{Namespace: ns, ID: id}
	}
	return identity.JobKey{Namespace: "default", ID: s}
}

// Run implements cli.Command.
func (c *jobCommand) Run(args []string) int {
	rest, code, ok := c.parse(c.apiFlags("job"), args, 1, 1, c.Help())
	if !ok {
		return code
	}
	key := splitJob(rest[0])
	var j api.Job
	return c.ask(http.MethodGet, "/v1/job", url.Values{"namespace": {key.Namespace}, "id": {key.ID}}, nil, &j, func() string { return drawJob(&j) })
}

// gapText describes what a resize cost, as far as known.
func gapText(g history.Gap) string {
	text := fmt.Sprintf("%d→%d slots", g.From, g.To)
	if g.Seconds != nil {
		text += fmt.Sprintf(" in %.2f s", *g.Seconds)
	} else {
		text += ", time unknown"
	}
	if g.Lost != nil {
		return text + fmt.Sprintf(", %.0f steps lost", *g.Lost)
	}
	return text + ", lost steps unknown"
}

// secondsText returns a duration in whole seconds.
func secondsText(s float64) string { return (time.Duration(s) * time.Second).String() }

// ratioText returns the workers of each group in one unit, or "" if there is no ratio.
func ratioText(ratio map[string]int) string {
	var parts []string
	for _, group := range slices.Sorted(maps.Keys(ratio)) {
		parts = append(parts, fmt.Sprintf("%d %s", ratio[group], group))
	}
	return strings.Join(parts, ", ")
}

func drawJob(j *api.Job) string {
	var out strings.Builder
	if s := j.Job; s != nil {
		rows := [][]string{
			{"Job", s.JobKey.String()}, {"State", s.State}, {"Pool", s.Pool}, {"Queue", s.Queue}, {"Tenant", s.Tenant},
			{"Workers", fmt.Sprintf("%d of %d wanted (%d to %d)%s", s.Running, s.Want, s.Min, s.Max, sparesText(s))},
			{"Reason", s.Reason}, {"Waits for", s.HoldReason},
			{"Attained", fmt.Sprintf("%.0f slot-seconds", s.Attained)}, {"Resizes", strconv.Itoa(s.Resizes)},
		}
		if s.Idle > 0 {
			what := "no step for "
			if s.IdleBy == api.IdleByGPUs {
				what = "GPUs unused for "
			}
			rows = append(rows, []string{"Idle", what + secondsText(s.Idle)})
		}
		if s.Hangs > 0 {
			rows = append(rows, []string{"Hangs", "no step for " + secondsText(s.Hangs)})
		}
		rows = append(rows, trainingRows(s)...)
		rows = append(rows, stallRows(j.Training)...)
		if s.Usage != nil {
			rows = append(rows, []string{"Productive share", usageText(s.Usage)})
		}
		if s.Waits != nil {
			rows = append(rows, []string{"Expected start", expectedStart(s.Waits.Expected)})
		}
		if r := ratioText(s.Requests.Ratio); r != "" {
			rows = append(rows, []string{"Unit", r})
		}
		if p := jobProgress(s); p != "" {
			rows = append(rows, []string{"Progress", p})
		}
		if s.Remaining != nil {
			rows = append(rows, []string{"Remaining", remainingText(s.Remaining)})
		}
		rows = append(rows, spreadRows(s.Spread)...)
		for _, n := range s.Notes {
			rows = append(rows, []string{"Note", n})
		}
		for _, g := range s.Gaps {
			rows = append(rows, []string{"Gap", gapText(g)})
		}
		rows = slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })
		out.WriteString(table(rows))
	}
	if a := j.Ineligible; a != nil {
		fmt.Fprintf(&out, "Kolo does not scale %s because of errors:\n  %s", a.JobKey, strings.Join(a.Problems, "\n  "))
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

// remainingText returns the remaining work of a job, and its source.
func remainingText(r *api.Remaining) string {
	switch r.Origin {
	case api.OriginJob:
		return fmt.Sprintf("%.0f steps, declared by the job", r.Steps)
	case api.OriginTraining:
		return fmt.Sprintf("%.0f steps, reported by the training", r.Steps)
	}
	return fmt.Sprintf("probably %.0f to %.0f slot-seconds, predicted from %d completed jobs of its %s", r.Low, r.High, r.Jobs, r.Origin)
}

// trainingRows describes what a job reports of its training.
func trainingRows(s *api.JobStatus) [][]string {
	var rows [][]string
	if s.Size > 0 && s.State != api.StateComplete {
		rows = append(rows, []string{"Trains on", counted(s.Size, "slot")})
	}
	if s.Loss != nil {
		rows = append(rows, []string{"Loss", fmt.Sprintf("%.6g", *s.Loss)})
	}
	if s.Adaptive != nil {
		rows = append(rows, []string{"Batch", s.Adaptive.Sentence()})
	}
	if s.Straggler != nil {
		rows = append(rows, []string{"Straggler", s.Straggler.Sentence()})
	}
	var times []string
	for _, p := range s.StepTimes {
		times = append(times, fmt.Sprintf("%.3g s on %s", p.StepTime, counted(p.Size, "worker")))
	}
	rows = append(rows, []string{"Step time", strings.Join(times, ", ")})
	for _, at := range []struct {
		name string
		time time.Time
	}{{"Started", s.Started}, {"Complete by", s.ETA}, {"Completed", s.Completed}} {
		if !at.time.IsZero() {
			rows = append(rows, []string{at.name, at.time.Format(time.DateTime)})
		}
	}
	return append(rows, []string{"Write failed", s.WriteError})
}

// sparesText returns how many spares a job has, if it is to have any.
func sparesText(s *api.JobStatus) string {
	switch {
	case s.Spares == 0 && s.Requests.Spare == 0:
		return ""
	case s.Spares == 1:
		return ", 1 spare"
	}
	return fmt.Sprintf(", %d spares", s.Spares)
}

// usageText returns the productive share of a job, and what the rest of its slot-seconds
// were used for.
func usageText(u *api.Usage) string {
	parts := []string{shareText(u.Share)}
	for _, part := range []struct {
		name    string
		seconds float64
	}{{"starting", u.Starting}, {"resizing", u.Resizing}, {"lost", u.Lost}, {"spare", u.Spare}, {"idle", u.Idle}, {"unknown", u.Unknown}} {
		if share := part.seconds / max(u.Held, 1e-3); share >= 0.0005 {
			parts = append(parts, fmt.Sprintf("%.1f%% %s", 100*share, part.name))
		}
	}
	return fmt.Sprintf("%s (%.0f slot-seconds held)", strings.Join(parts, ", "), u.Held)
}

// spreadRows describes how far apart a job's workers are and the cost of that.
func spreadRows(s *api.Spread) [][]string {
	if s == nil {
		return nil
	}
	var rows [][]string
	switch {
	case s.Workers > 0 && s.Level == "":
		rows = append(rows, []string{"Spread", "none"})
	case s.Workers > 0:
		rows = append(rows, []string{"Spread", fmt.Sprintf("on %d of %s", s.Domains, s.Level)})
	}
	for i := range s.Costs {
		rows = append(rows, []string{"Crossing", crossingCost(&s.Costs[i])})
	}
	return rows
}

func crossingCost(c *api.CrossingCost) string {
	than := 1
	if c.Than.Level == c.Level {
		than = c.Than.Domains
	}
	change := fmt.Sprintf("%.0f %% slower than", 100*(c.Slowdown-1))
	switch {
	case c.Slowdown < 0.995:
		change = fmt.Sprintf("%.0f %% faster than", 100*(1-c.Slowdown))
	case c.Slowdown < 1.005:
		change = "as fast as"
	}
	by := "other jobs of its kind"
	if !c.OfKind {
		by = fmt.Sprintf("%.3g s a step against %.3g s", c.StepTime, c.Than.StepTime)
	}
	return fmt.Sprintf("on %d of %s %s on %d (%d workers: %s)", c.Domains, c.Level, change, than, c.Size, by)
}

// jobProgress returns the progress of a job, or "" if it is unknown.
func jobProgress(s *api.JobStatus) string {
	var p string
	if s.Total > 0 {
		p = fmt.Sprintf("step %.0f of %.0f", s.Step, s.Total)
	}
	switch {
	case s.State != api.StateComplete:
		return p
	case p == "":
		return "complete"
	}
	return "complete; last report: " + p
}

// predictJobs completes the names of jobs that the autoscaler knows.
func (c *apiCommand) predictJobs() complete.Predictor {
	return complete.PredictFunc(func(complete.Args) []string {
		_ = c.apiFlags("").Parse(nil) // only sets defaults
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		to, err := c.client(ctx)
		if err != nil {
			return nil
		}
		s, err := to.Status(ctx)
		if err != nil {
			return nil
		}
		var out []string
		for i := range s.Jobs {
			out = append(out, s.Jobs[i].JobKey.String())
		}
		return out
	})
}
