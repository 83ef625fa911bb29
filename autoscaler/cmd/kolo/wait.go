// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// waitCommand waits until a job is in a state, for scripts.
type waitCommand struct {
	apiCommand
	every   time.Duration // between two looks, 2 s if 0
	unknown time.Duration // how long a job may be unknown, 30 s if 0
}

// Synopsis implements cli.Command.
func (c *waitCommand) Synopsis() string { return "Wait until a job runs, has a size, or is complete" }

// Help implements cli.Command.
func (c *waitCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo wait [options] [<namespace>/]<job>

  Waits until a job is complete, or in the state of -for, and prints each change
  of its state until then. Exits with 1 if the job can no longer reach this
  state, for example because it is complete or has an error, and with 3 after
  -timeout.

  If the autoscaler does not know the job, it may be new in Nomad, so the command
  waits 30 s for it to appear. Later errors, for example at a change of leader,
  are printed and do not end the wait.

Wait Options:

  -for=<state>
    complete, running (it has workers), waiting (it has none), or size=<slots>:
    this many slots train together. Default: complete

  -timeout=<time>
    Longest time to wait, such as 90m. Default: 0, no limit
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *waitCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-for"], f["-timeout"] = complete.PredictSet("complete", "running", "waiting", "size="), complete.PredictAnything
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *waitCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

// exitTimeout is the exit code after -timeout.
const exitTimeout = 3

// errNever states why a job can no longer get into a state.
var errNever = errors.New("it is complete")

// goal reports whether a job is in the state that is waited for. It returns errNever if the job
// cannot get there.
type goal func(*api.JobStatus) (bool, error)

// parseGoal returns the goal that -for names.
func parseGoal(text string) (goal, error) {
	complete := func(j *api.JobStatus) bool { return j.State == api.StateComplete }
	unlessComplete := func(met func(*api.JobStatus) bool) goal {
		return func(j *api.JobStatus) (bool, error) {
			if complete(j) {
				return false, errNever
			}
			return met(j), nil
		}
	}
	name, value, sized := strings.Cut(text, "=")
	switch {
	case text == "complete":
		return func(j *api.JobStatus) (bool, error) { return complete(j), nil }, nil
	case text == "running":
		return unlessComplete(func(j *api.JobStatus) bool { return j.Running > 0 }), nil
	case text == "waiting":
		return unlessComplete(func(j *api.JobStatus) bool { return j.Running == 0 }), nil
	case name == "size" && sized:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return nil, badFlag("-for=%s: write a number of slots of at least 1, such as size=4", text)
		}
		return unlessComplete(func(j *api.JobStatus) bool { return j.Size == n }), nil
	}
	return nil, badFlag("-for=%s: write complete, running, waiting or size=<slots>", text)
}

// Run implements cli.Command.
func (c *waitCommand) Run(args []string) int {
	f := c.apiFlags("wait")
	state, timeout := f.String("for", "complete", ""), f.Duration("timeout", 0, "")
	rest, code, ok := c.parse(f, args, 1, 1, c.Help())
	if !ok {
		return code
	}
	met, err := parseGoal(*state)
	if err == nil && *timeout < 0 {
		err = badFlag("-timeout=%s: write a time of at least 0", *timeout)
	}
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	if *timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, *timeout)
		defer cancel()
	}
	key := splitJob(rest[0])
	query := url.Values{"namespace": {key.Namespace}, "id": {key.ID}}
	said, reached, begun := "", false, time.Now()
	for {
		var j api.Job
		_, err := c.call(ctx, http.MethodGet, "/v1/job", query, nil, &j)
		now := key.String() + ": "
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, api.ErrNotFound) && time.Since(begun) < cmp.Or(c.unknown, 30*time.Second):
			now += "unknown to the autoscaler"
		case err != nil && (!reached || errors.Is(err, api.ErrNotFound)):
			return c.fail(err)
		case err != nil:
			now += err.Error()
		case j.Ineligible != nil && !j.Ineligible.Off:
			return c.fail(fmt.Errorf("kolo does not scale %s because of errors: %s", key, strings.Join(j.Ineligible.Problems, "; ")))
		case j.Job == nil:
			now += "stopped, or its kolo block is off"
		default:
			now += waitState(j.Job)
			done, err := met(j.Job)
			if err != nil {
				return c.fail(fmt.Errorf("%s will not be %s: %w", key, *state, err))
			}
			if done {
				c.say(&said, now)
				if c.json {
					return c.printJSON(j.Job)
				}
				return 0
			}
		}
		if ctx.Err() == nil {
			reached = true
			c.say(&said, now)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				c.UI.Error(fmt.Sprintf("Error: %s is not %s after %s", key, *state, *timeout))
				return exitTimeout
			}
			return 1
		case <-time.After(cmp.Or(c.every, 2*time.Second)):
		}
	}
}

// say prints a state if it differs from the last one that was printed. With -json it prints
// nothing.
func (c *waitCommand) say(said *string, now string) {
	if *said != now && !c.json {
		c.UI.Output(time.Now().Format(time.TimeOnly) + "  " + printable.Line(now))
	}
	*said = now
}

// waitState describes a job's state in a line that changes only with it.
func waitState(j *api.JobStatus) string {
	switch {
	case j.State == api.StateComplete:
		return j.State
	case j.Waits != nil:
		return fmt.Sprintf("%s: %s", j.State, why(j.Waits))
	case j.Running == 0 && j.HoldReason != "": // such as a job that its user has stopped
		return fmt.Sprintf("%s: %s", j.State, j.HoldReason)
	case j.Size > 0:
		return fmt.Sprintf("%s: %s, %d train together", j.State, counted(j.Running, "worker"), j.Size)
	}
	return fmt.Sprintf("%s: %s", j.State, counted(j.Running, "worker"))
}
