// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// policyGetCommand shows the policies in force.
type policyGetCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *policyGetCommand) Synopsis() string { return "Show the policies in force" }

// Help implements cli.Command.
func (c *policyGetCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo policy get [options]

  Shows the policy of each node pool, as configured and as set by command.
` + apiHelp)
}

// Run implements cli.Command.
func (c *policyGetCommand) Run(args []string) int {
	if _, code, ok := c.parse(c.apiFlags("policy get"), args, 0, 0, c.Help()); !ok {
		return code
	}
	var p api.Policies
	return c.ask(http.MethodGet, "/v1/policy", nil, nil, &p, func() string {
		rows := [][]string{{"Pool", "Configured", "Set while running"}}
		names := maps.Clone(p.Configured)
		maps.Copy(names, p.Set)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			rows = append(rows, []string{name, p.Configured[name], cmp.Or(p.Set[name], "-")})
		}
		if len(p.External) > 0 {
			return table(rows) + "\n\nExternal policies: " + strings.Join(p.External, ", ")
		}
		return table(rows)
	})
}
