// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// planCommand shows what a policy would do now.
type planCommand struct{ remote }

// Synopsis implements cli.Command.
func (c *planCommand) Synopsis() string { return "Show what a policy would do now" }

// Help implements cli.Command.
func (c *planCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo plan [options]

  Shows what the policies in force would do now, or with -policy what another
  one would. Nothing is changed.

Plan Options:

  -policy=<policy>
    A policy, with options if any: 'elastic-fifo', 'tiresias(starvation=0)'.
` + remoteHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *planCommand) AutocompleteFlags() complete.Flags {
	f := remoteCompletion()
	f["-policy"] = complete.PredictSet(policy.Names()...)
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *planCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

// Run implements cli.Command.
func (c *planCommand) Run(args []string) int {
	f := c.remoteFlags("plan")
	line := f.String("policy", "", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	ctx, cancel := interruptible()
	defer cancel()
	query := url.Values{}
	if *line != "" {
		query.Set("policy", *line)
	}
	var out []api.Proposal
	raw, err := c.call(ctx, http.MethodGet, "/v1/plan", query, nil, &out)
	if err != nil {
		return c.fail(err)
	}
	c.show(raw, func() string {
		var parts []string
		for _, p := range out {
			rows := [][]string{{"Job", "Now", "Want", "Write now", "Why"}}
			for _, j := range p.Jobs {
				write := "-"
				if j.Cause != "" {
					write = fmt.Sprintf("%d (%s)", j.Write, j.Cause)
				}
				why := j.Reason
				if j.HoldReason != "" {
					why = j.HoldReason
				}
				rows = append(rows, []string{j.Job, strconv.Itoa(j.Count), strconv.Itoa(j.Want), write, why})
			}
			parts = append(parts, fmt.Sprintf("Pool %s with %s\n%s", p.Pool, p.Policy, table(rows)))
		}
		return strings.Join(parts, "\n\n")
	})
	return 0
}

// policyGetCommand shows the policies in force.
type policyGetCommand struct{ remote }

// Synopsis implements cli.Command.
func (c *policyGetCommand) Synopsis() string { return "Show the policies in force" }

// Help implements cli.Command.
func (c *policyGetCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo policy get [options]

  Shows the policy of each node pool, as configured and as set while running.
` + remoteHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *policyGetCommand) AutocompleteFlags() complete.Flags { return remoteCompletion() }

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *policyGetCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

// Run implements cli.Command.
func (c *policyGetCommand) Run(args []string) int {
	if _, code, ok := c.parse(c.remoteFlags("policy get"), args, 0, 0, c.Help()); !ok {
		return code
	}
	ctx, cancel := interruptible()
	defer cancel()
	var p api.Policies
	raw, err := c.call(ctx, http.MethodGet, "/v1/policy", nil, nil, &p)
	if err != nil {
		return c.fail(err)
	}
	c.show(raw, func() string {
		rows := [][]string{{"Pool", "Configured", "Set while running"}}
		names := maps.Clone(p.Configured)
		maps.Copy(names, p.Set)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			set := p.Set[name]
			if set == "" {
				set = "-"
			}
			rows = append(rows, []string{name, p.Configured[name], set})
		}
		if len(p.External) > 0 {
			return table(rows) + "\n\nPolicies of your own: " + strings.Join(p.External, ", ")
		}
		return table(rows)
	})
	return 0
}

// policySetCommand changes a policy while everything runs.
type policySetCommand struct{ remote }

// Synopsis implements cli.Command.
func (c *policySetCommand) Synopsis() string { return "Change the policy while everything runs" }

// Help implements cli.Command.
func (c *policySetCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo policy set [options] <policy>

  Puts a policy in force for a node pool at once, on running jobs too. It stays
  in force until it is set again, also when agents restart.

      $ kolo policy set elastic-fifo
      $ kolo policy set -pool=gpu 'tiresias(starvation=0)'
      $ kolo policy set -reset

Set Options:

  -pool=<pool>
    The node pool. The default is "default".

  -reset
    Go back to the configured policy.
` + remoteHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *policySetCommand) AutocompleteFlags() complete.Flags {
	f := remoteCompletion()
	f["-pool"], f["-reset"] = complete.PredictAnything, complete.PredictNothing
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *policySetCommand) AutocompleteArgs() complete.Predictor {
	return complete.PredictSet(policy.Names()...)
}

// Run implements cli.Command.
func (c *policySetCommand) Run(args []string) int {
	f := c.remoteFlags("policy set")
	pool := f.String("pool", "default", "")
	reset := f.Bool("reset", false, "")
	rest, code, ok := c.parse(f, args, 0, 1, c.Help())
	if !ok {
		return code
	}
	if *reset != (len(rest) == 0) {
		return c.usage(errors.New("write either a policy or -reset"), f, c.Help())
	}
	in := api.SetPolicy{Pool: *pool}
	if !*reset {
		in.Policy = rest[0]
	}
	ctx, cancel := interruptible()
	defer cancel()
	raw, err := c.call(ctx, http.MethodPut, "/v1/policy", nil, in, nil)
	if err != nil {
		return c.fail(err)
	}
	c.show(raw, func() string {
		if *reset {
			return fmt.Sprintf("Pool %s goes by its configuration again.", *pool)
		}
		return fmt.Sprintf("Pool %s goes by %s now.", *pool, in.Policy)
	})
	return 0
}

// pauseCommand stops or continues scaling of one job or all.
type pauseCommand struct {
	remote
	resume bool
}

// Synopsis implements cli.Command.
func (c *pauseCommand) Synopsis() string {
	if c.resume {
		return "Scale jobs again after a pause"
	}
	return "Leave a job, or all jobs, at their counts"
}

// Help implements cli.Command.
func (c *pauseCommand) Help() string {
	if c.resume {
		return strings.TrimSpace(`
Usage: kolo resume [options] [[<namespace>/]<job>]

  Ends the pause of one job, or of all jobs.
` + remoteHelp)
	}
	return strings.TrimSpace(`
Usage: kolo pause [options] [[<namespace>/]<job>]

  Leaves a job at its present count until it is resumed, or all jobs where none
  is named. Training goes on. Agents that restart remember it.
` + remoteHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *pauseCommand) AutocompleteFlags() complete.Flags { return remoteCompletion() }

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *pauseCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

// Run implements cli.Command.
func (c *pauseCommand) Run(args []string) int {
	name, word := "pause", "paused"
	if c.resume {
		name, word = "resume", "resumed"
	}
	rest, code, ok := c.parse(c.remoteFlags(name), args, 0, 1, c.Help())
	if !ok {
		return code
	}
	var in api.JobSelector
	what := "All jobs are"
	if len(rest) == 1 {
		in.Namespace, in.ID = splitJob(rest[0])
		what = rest[0] + " is"
	}
	ctx, cancel := interruptible()
	defer cancel()
	raw, err := c.call(ctx, http.MethodPut, "/v1/"+name, nil, in, nil)
	if err != nil {
		return c.fail(err)
	}
	c.show(raw, func() string { return what + " " + word + "." })
	return 0
}
