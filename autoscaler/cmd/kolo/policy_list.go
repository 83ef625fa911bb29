// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// policyListCommand lists the built-in policies.
type policyListCommand struct{ meta }

// Synopsis implements cli.Command.
func (c *policyListCommand) Synopsis() string { return "List scheduling policies" }

// Help implements cli.Command.
func (c *policyListCommand) Help() string {
	return `Usage: kolo policy list [options]

  Lists the built-in scheduling policies, and what each does. An asterisk marks
  the default. For external policies, use kolo policy get.

Options:

  -json
    Print as JSON, with sources, needs and options.
`
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *policyListCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-json": complete.PredictNothing}
}

// Run implements cli.Command.
func (c *policyListCommand) Run(args []string) int {
	f := c.flags("policy list")
	asJSON := f.Bool("json", false, "")
	if err := parse(f, args, 0, 0); err != nil {
		return c.usage(err, f, c.Help())
	}
	var infos []registry.Info
	for _, name := range builtin.Policies.Names() {
		info, _ := builtin.Policies.Describe(name)
		infos = append(infos, info)
	}
	if *asJSON {
		return c.printJSON(infos)
	}
	width := 0
	for _, i := range infos {
		width = max(width, len(i.Name))
	}
	for _, i := range infos {
		mark := " "
		if i.Name == builtin.Default {
			mark = "*"
		}
		indent := strings.Repeat(" ", width+4)
		c.UI.Output(fmt.Sprintf("%s %-*s  %s", mark, width, i.Name, wrap(i.Doc, 78-len(indent), indent)))
	}
	return 0
}
