// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"net/http"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// pauseCommand pauses or resumes scaling, of one job or all.
type pauseCommand struct {
	apiCommand
	resume bool
}

// Synopsis implements cli.Command.
func (c *pauseCommand) Synopsis() string {
	if c.resume {
		return "Scale jobs again after a pause"
	}
	return "Keep a job, or all jobs, at their counts"
}

// Help implements cli.Command.
func (c *pauseCommand) Help() string {
	if c.resume {
		return strings.TrimSpace(`
Usage: kolo resume [options] [[<namespace>/]<job>]

  Ends the pause of one job, or of all jobs.
` + apiHelp)
	}
	return strings.TrimSpace(`
Usage: kolo pause [options] [[<namespace>/]<job>]

  Keeps a job, or without an argument all jobs, at the present count until kolo
  resume. Training goes on. The pause stays in force after restarts.
` + apiHelp)
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *pauseCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

// Run implements cli.Command.
func (c *pauseCommand) Run(args []string) int {
	name, word := "pause", "paused"
	if c.resume {
		name, word = "resume", "resumed"
	}
	rest, code, ok := c.parse(c.apiFlags(name), args, 0, 1, c.Help())
	if !ok {
		return code
	}
	var key identity.JobKey
	what := "All jobs are"
	if len(rest) == 1 {
		key = splitJob(rest[0])
		what = rest[0] + " is"
	}
	return c.ask(http.MethodPut, "/v1/"+name, nil, key, nil, func() string { return what + " " + word + "." })
}
