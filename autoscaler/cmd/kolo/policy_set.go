// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// policySetCommand changes a policy while autoscaler and jobs run.
type policySetCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *policySetCommand) Synopsis() string { return "Change the policy at run time" }

// Help implements cli.Command.
func (c *policySetCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo policy set [options] <policy>

  Puts a policy in force for a node pool at once, also for running jobs. It stays
  in force until you set another, even if autoscalers restart.

      $ kolo policy set elastic-fifo
      $ kolo policy set -pool=gpu 'tiresias(starvation=0)'
      $ kolo policy set -reset

Set Options:

  -pool=<pool>
    The node pool. The default is "default".

  -reset
    Go back to the configured policy.
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *policySetCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-pool"], f["-reset"] = complete.PredictAnything, complete.PredictNothing
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *policySetCommand) AutocompleteArgs() complete.Predictor {
	return complete.PredictSet(builtin.Policies.Names()...)
}

// Run implements cli.Command.
func (c *policySetCommand) Run(args []string) int {
	f := c.apiFlags("policy set")
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
	return c.ask(http.MethodPut, "/v1/policy", nil, in, nil, func() string {
		if *reset {
			return fmt.Sprintf("Pool %s uses its configured policy again.", *pool)
		}
		return fmt.Sprintf("Pool %s now uses the policy %s.", *pool, in.Policy)
	})
}
