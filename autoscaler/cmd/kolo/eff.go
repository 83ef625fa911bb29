// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// effCommand shows how well a job used its slots.
type effCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *effCommand) Synopsis() string { return "Show how well one job used its slots" }

// Help implements cli.Command.
func (c *effCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo eff [options] [<namespace>/]<job>

  Shows the slot-hours that a job held, what they were used for, and how long
  the job waited. For each size that was measured, it shows the time of a step,
  the speed compared with the smallest size, and the scaling efficiency. The
  best size has the largest product of speed and efficiency: a larger size
  costs more slots than it saves time.

Eff Options:

  -since=<period>
    A number of days including today, such as 30d, or the first day, such as
    2026-11-01. Days begin at midnight UTC. Default: 30d
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *effCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-since"] = complete.PredictAnything
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *effCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

// Run implements cli.Command.
func (c *effCommand) Run(args []string) int {
	f := c.apiFlags("eff")
	since := f.String("since", "30d", "")
	rest, code, ok := c.parse(f, args, 1, 1, c.Help())
	if !ok {
		return code
	}
	if err := checkPeriod("job", *since); err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	s, out, err := c.efficiency(ctx, splitJob(rest[0]), *since)
	if err != nil {
		return c.fail(err)
	}
	defer c.warnOld(s)
	if c.json {
		return c.printJSON(out)
	}
	c.show(nil, func() string { return drawEff(out) })
	return 0
}

// efficiency holds what kolo eff shows of a job.
type efficiency struct {
	identity.JobKey
	Since string         `json:"since"`
	End   string         `json:"end,omitempty"`
	Usage api.Usage      `json:"usage"`
	Slots int            `json:"slots,omitempty"` // of one worker, as far as the job is known now
	Sizes []sizeOfJob    `json:"sizes,omitempty"`
	Best  *int           `json:"best,omitempty"` // index in Sizes
	job   *api.JobStatus // nil if the autoscaler no longer knows the job
}

// sizeOfJob is one size at which a job was measured.
type sizeOfJob struct {
	Size       int     `json:"size"` // workers
	StepTime   float64 `json:"step_time"`
	Speed      float64 `json:"speed"`      // as a multiple of that at the smallest size
	Efficiency float64 `json:"efficiency"` // work per slot-second, as a part of that at the smallest size
}

func (c *apiCommand) efficiency(ctx context.Context, key identity.JobKey, since string) (*api.Status, *efficiency, error) {
	s, r, err := c.readUsage(ctx, url.Values{"by": {"job"}, "since": {since}, "namespace": {key.Namespace}, "job": {key.ID}})
	if err != nil {
		return nil, nil, err
	}
	out := &efficiency{JobKey: key, Since: r.From}
	known := make([]identity.JobKey, len(s.Jobs))
	for i := range s.Jobs {
		known[i] = s.Jobs[i].JobKey
		if s.Jobs[i].JobKey == key {
			out.job = &s.Jobs[i]
			out.Slots, out.Sizes = out.job.Requests.Slots, scaling(out.job.StepTimes)
			out.Best = bestSize(out.Sizes)
		}
	}
	switch {
	case len(r.Rows) > 0:
		out.Usage, out.End = r.Rows[0].Usage, r.Rows[0].End
	case out.job == nil:
		if other, ok := key.Namesake(known); ok {
			return nil, nil, fmt.Errorf("no job %s held slots since %s; did you mean %q?", key, r.From, other)
		}
		return nil, nil, fmt.Errorf("no job %s held slots since %s in the usage that is kept; use -since to look further back, or kolo history to list jobs", key, r.From)
	}
	return s, out, nil
}

// scaling returns how a job scales, from measured step times by size.
func scaling(points []speedup.Point) []sizeOfJob {
	var out []sizeOfJob
	for _, p := range points {
		first := points[0]
		s := sizeOfJob{Size: p.Size, StepTime: p.StepTime, Speed: first.StepTime / p.StepTime}
		s.Efficiency = s.Speed * float64(first.Size) / float64(p.Size)
		out = append(out, s)
	}
	return out
}

// bestSize returns the index of the size with the largest product of speed and
// efficiency. It returns nil if fewer than two sizes were measured.
func bestSize(sizes []sizeOfJob) *int {
	if len(sizes) < 2 {
		return nil
	}
	best := 0
	for i, s := range sizes {
		if s.Speed*s.Efficiency > sizes[best].Speed*sizes[best].Efficiency {
			best = i
		}
	}
	return &best
}

func drawEff(e *efficiency) string {
	u := &e.Usage
	part := func(s float64) string {
		if u.Held == 0 {
			return hours(s)
		}
		return fmt.Sprintf("%s (%.1f%%)", hours(s), 100*s/u.Held)
	}
	rows := [][]string{
		{"Job", e.JobKey.String()}, {"Since", e.Since}, {"Held", hours(u.Held) + " slot-hours"}, {"Productive share", shareText(u.Share)},
		{"Productive", part(u.Productive)}, {"Starting", part(u.Starting)}, {"Resizing", part(u.Resizing)}, {"Lost", part(u.Lost)}, {"Spare", part(u.Spare)}, {"Idle", part(u.Idle)}, {"Unknown", part(u.Unknown)},
		{"Waited", hours(u.Waiting) + " hours"}, {"Resizes", strconv.Itoa(u.Resizes)}, {"Failures", strconv.Itoa(u.Failures)}, {"Evictions", strconv.Itoa(u.Evictions)},
	}
	if e.End != "" {
		rows = append(rows, []string{"End", e.End})
	}
	out := table(rows) + "\n\n"
	switch {
	case len(e.Sizes) == 0 && e.job == nil:
		return out + "the job no longer exists in Nomad, so its step times are unknown"
	case len(e.Sizes) == 0:
		return out + "no step time is known: the job has not reported its steps"
	}
	rows = [][]string{{"Workers", "Step", "Speed", "Efficiency", "Slot-hours per 1000 steps"}}
	for _, s := range e.Sizes {
		rows = append(rows, []string{
			strconv.Itoa(s.Size), fmt.Sprintf("%.3g s", s.StepTime), fmt.Sprintf("%.2f×", s.Speed), fmt.Sprintf("%.0f%%", 100*s.Efficiency),
			hours(1000 * s.StepTime * float64(s.Size*max(1, e.Slots))),
		})
	}
	return out + table(rows) + "\n\n" + e.advice()
}

// advice states which size would have been best, and why.
func (e *efficiency) advice() string {
	if e.Best == nil {
		return "only one size was measured, so it is unknown whether another would have been better"
	}
	i := *e.Best
	best := e.Sizes[i]
	out := "best size: " + counted(best.Size, "worker")
	compare := func(a, b sizeOfJob) string { // b is larger
		return fmt.Sprintf("%.2f times the speed for %.2f times the slots", b.Speed/a.Speed, float64(b.Size)/float64(a.Size))
	}
	if i > 0 {
		out += fmt.Sprintf("; compared with %d, it has %s", e.Sizes[i-1].Size, compare(e.Sizes[i-1], best))
	}
	if i+1 < len(e.Sizes) {
		out += fmt.Sprintf("; %d would have only %s", e.Sizes[i+1].Size, compare(best, e.Sizes[i+1]))
	}
	return out
}
