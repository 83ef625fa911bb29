// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// planCommand shows what a policy would do now.
type planCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *planCommand) Synopsis() string { return "Show what a policy would do now" }

// Help implements cli.Command.
func (c *planCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo plan [options]

  Shows what the policies in force would do now. With -policy, shows what another
  policy would do; with -config, what the policies, queues and spares of another
  configuration would do. Also lists the jobs that would not be scaled because of
  errors. Nothing is changed.

Plan Options:

  -policy=<policy>
    A policy, with options if any: 'elastic-fifo', 'tiresias(starvation=0)'.
    Requires a token (-token, NOMAD_TOKEN) or the autoscaler's Unix socket.

  -config=<path>
    A configuration, as a file or a directory of *.hcl files, that the autoscaler
    may be given later: the policies, queues and spares of its pools apply. It is
    checked first. Only the pool blocks are sent, 64 KiB at most. Requires what
    -policy requires.
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *planCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-config"] = complete.PredictFiles("*")
	f["-policy"] = complete.PredictSet(builtin.Policies.Names()...)
	return f
}

// Run implements cli.Command.
func (c *planCommand) Run(args []string) int {
	f := c.apiFlags("plan")
	line := f.String("policy", "", "")
	path := f.String("config", "", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	method, query, in := http.MethodGet, url.Values{}, any(nil)
	switch {
	case *path != "":
		sources, err := config.Read(*path)
		if err == nil {
			_, err = config.Parse(sources)
		}
		if err != nil {
			return c.fail(err)
		}
		method, in = http.MethodPost, api.PlanRequest{Pools: string(config.PoolBlocks(sources)), Policy: *line}
	case *line != "":
		query.Set("policy", *line)
	}
	var out []api.Proposal
	code := c.ask(method, "/v1/plan", query, in, &out, func() string { return drawPlan(out) })
	if code == 0 {
		ctx, cancel := c.interruptible()
		defer cancel()
		c.warnIfOld(ctx)
	}
	return code
}

// drawPlan returns a table of the counts that each pool's policy wants.
func drawPlan(pools []api.Proposal) string {
	var parts []string
	for _, p := range pools {
		rows := [][]string{{"Job", "Now", "Want", "Write now", "Why"}}
		for _, j := range p.Jobs {
			write := "-"
			if j.Cause != "" {
				write = fmt.Sprintf("%s (%s)", withSpares(j.Write, j.WriteSpare), j.Cause)
			}
			rows = append(rows, []string{j.Job, withSpares(j.Count, j.Spares), strconv.Itoa(j.Want), write, cmp.Or(j.Move, j.HoldReason, j.Reason)})
		}
		for _, j := range p.Ineligible {
			rows = append(rows, []string{j.JobKey.String(), strconv.Itoa(j.Count), "-", "-", "not scaled: " + strings.Join(j.Problems, "; ")})
		}
		parts = append(parts, fmt.Sprintf("Pool %s with %s\n%s", p.Pool, p.Policy, table(rows)))
	}
	return strings.Join(parts, "\n\n")
}
