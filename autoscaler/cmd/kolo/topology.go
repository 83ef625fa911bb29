// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/text/suggest"
)

// topologyCommand shows the topology of node pools and the placement of jobs.
type topologyCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *topologyCommand) Synopsis() string { return "Show racks, nodes, and which jobs span them" }

// Help implements cli.Command.
func (c *topologyCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo topology [options]

  Shows the domains of each node pool by level, with free and used slots, how far
  apart the workers of each job are, and what is wrong with the values of nodes.
  The levels are those of topology { levels } in the autoscaler's configuration.

  To write one group per rack into a job, and to list the racks:

      $ kolo topology expand -level meta.rack train.nomad.hcl > racks.nomad.hcl
      $ kolo topology vars -level meta.rack > racks.vars.hcl

Topology Options:

  -level=<name>
    Show domains down to this level. Default: all

  -pool=<name>
    Show this node pool only. Default: all
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *topologyCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-level"], f["-pool"] = complete.PredictAnything, complete.PredictAnything
	return f
}

// Run implements cli.Command.
func (c *topologyCommand) Run(args []string) int {
	f := c.apiFlags("topology")
	level, pool := f.String("level", "", ""), f.String("pool", "", "")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		next := words(commands(c.meta), "topology ")
		return c.usage(fmt.Errorf("unknown command %q%s", "topology "+args[0], suggest.Hint("topology ", args[0], next)), f, c.Help())
	}
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	pools, err := c.pools(ctx, *pool)
	if err == nil && *level != "" {
		err = cut(pools, *level)
	}
	if err != nil {
		return c.fail(err)
	}
	defer c.warnIfOld(ctx)
	if c.json {
		return c.printJSON(pools)
	}
	c.show(nil, func() string { return drawPools(pools, drawTopology) })
	return 0
}

// pools returns the topologies of all node pools, or of one.
func (c *apiCommand) pools(ctx context.Context, pool string) ([]api.PoolTopology, error) {
	var all []api.PoolTopology
	if _, err := c.call(ctx, http.MethodGet, "/v1/topology", nil, nil, &all); err != nil || pool == "" {
		return all, err
	}
	var names []string
	for i := range all {
		if all[i].Pool == pool {
			return all[i : i+1], nil
		}
		names = append(names, all[i].Pool)
	}
	return nil, fmt.Errorf("there is no node pool %q with nodes; there is %s", pool, cmp.Or(strings.Join(names, ", "), "none"))
}

// cut removes the domains inside level. It returns an error if no pool has the
// level.
func cut(pools []api.PoolTopology, level string) error {
	known := map[string]bool{}
	var names []string
	for i := range pools {
		at := slices.Index(pools[i].Levels, level)
		if at >= 0 {
			prune(pools[i].Domains, at)
		}
		for _, l := range pools[i].Levels {
			if !known[l] {
				known[l] = true
				names = append(names, l)
			}
		}
	}
	if !known[level] {
		return fmt.Errorf("no pool has a level %q; there is %s. Levels are those of topology { levels } in the autoscaler's configuration", level, strings.Join(names, ", "))
	}
	return nil
}

func prune(all []api.Domain, below int) {
	for i := range all {
		if below == 0 {
			all[i].Domains = nil
		} else {
			prune(all[i].Domains, below-1)
		}
	}
}

func drawTopology(p *api.PoolTopology) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Pool %s: %s\n\n", p.Pool, strings.Join(p.Levels, " > "))
	rows := [][]string{{"Domain", "Nodes", "Used", "Free"}}
	var walk func(all []api.Domain, level int)
	walk = func(all []api.Domain, level int) {
		for i := range all {
			d := &all[i]
			rows = append(rows, []string{strings.Repeat("  ", level) + title(p, level, d.Name), strconv.Itoa(d.Nodes), strconv.Itoa(d.Used), strconv.Itoa(d.Free)})
			walk(d.Domains, level+1)
		}
	}
	walk(p.Domains, 0)
	out.WriteString(table(append(rows, []string{"total", "", strconv.Itoa(p.Used), strconv.Itoa(p.Free)})))
	if len(p.Jobs) > 0 {
		rows = [][]string{{"Job", "Workers", "Spans", "Where"}}
		for i := range p.Jobs {
			rows = append(rows, jobRow(p, &p.Jobs[i]))
		}
		out.WriteString("\n\n" + table(rows))
	}
	if p.Unread > 0 {
		fmt.Fprintf(&out, "\n\nThe values of %d nodes are still being read.", p.Unread)
	}
	for i, problem := range p.Problems {
		if i == 0 {
			out.WriteString("\n\nProblems")
		}
		out.WriteString("\n- " + wrap(problem.What, 100, "  "))
	}
	return out.String()
}

// title returns the displayed name of a domain.
func title(p *api.PoolTopology, level int, name string) string {
	if name == "" {
		return "(no " + p.Levels[level] + ")"
	}
	return name
}

func jobRow(p *api.PoolTopology, j *api.JobSpread) []string {
	spans := "-"
	if j.Level != "" {
		spans = fmt.Sprintf("%d of %s", j.Domains, j.Level)
	}
	var where []string
	for i, part := range j.Parts {
		if i == 8 {
			where = append(where, fmt.Sprintf("%d more", len(j.Parts)-i))
			break
		}
		var names []string
		for l, name := range part.Path {
			names = append(names, title(p, l, name))
		}
		where = append(where, fmt.Sprintf("%s: %d", strings.Join(names, "/"), part.Workers))
	}
	return []string{j.JobKey.String(), strconv.Itoa(j.Workers), spans, strings.Join(where, ", ")}
}

// errLevel is the error of a command line without a level.
var errLevel = errors.New("which level? write -level=<name>, such as -level=meta.rack")
