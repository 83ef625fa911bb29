// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/job/expand"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// topologyExpandCommand rewrites a jobspec to have one group per domain.
type topologyExpandCommand struct {
	meta
	out io.Writer
}

// Synopsis implements cli.Command.
func (c *topologyExpandCommand) Synopsis() string { return "Write one group per rack into a job" }

// Help implements cli.Command.
func (c *topologyExpandCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo topology expand [options] FILE

  Prints a jobspec with one group per value of a level, in place of each group
  with a kolo block. A constraint binds each new group to its value. The values
  are those of a variable; kolo topology vars prints a file for it. FILE may be -
  for standard input. The command needs no autoscaler.

      $ kolo topology expand -level meta.rack train.nomad.hcl > racks.nomad.hcl
      $ kolo topology vars -level meta.rack > racks.vars.hcl
      $ nomad job run -var-file racks.vars.hcl racks.nomad.hcl

  count and scaling.min become 0. If the kolo block has no min or max, it gets
  those of the job, for all groups together. Nothing else in the file changes,
  except the indentation of those groups.

Expand Options:

  -level=<name>
    Level of the topology, such as meta.rack. Required.
`)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *topologyExpandCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-level": complete.PredictAnything}
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *topologyExpandCommand) AutocompleteArgs() complete.Predictor {
	return complete.PredictFiles("*.hcl")
}

// Run implements cli.Command.
func (c *topologyExpandCommand) Run(args []string) int {
	f := c.flags("topology expand")
	name := f.String("level", "", "")
	err := parse(f, args, 1, 1)
	var level topology.Level
	if err == nil {
		level, err = levelOf(*name)
	}
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	src, err := readJob(f.Arg(0))
	if err != nil {
		return c.fail(err)
	}
	out, err := expand.Job(f.Arg(0), src, level)
	if err != nil {
		return c.fail(err)
	}
	if _, err := c.out.Write(out); err != nil {
		return c.fail(fmt.Errorf("writing the job: %w", err))
	}
	return 0
}

// levelOf returns the level that a flag names.
func levelOf(name string) (topology.Level, error) {
	if name == "" {
		return topology.Level{}, errLevel
	}
	return topology.ParseLevel(name)
}

// topologyVarsCommand prints the values of a level as a variable file.
type topologyVarsCommand struct {
	apiCommand
	out io.Writer
}

// Synopsis implements cli.Command.
func (c *topologyVarsCommand) Synopsis() string { return "List racks as a variable file for a job" }

// Help implements cli.Command.
func (c *topologyVarsCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo topology vars [options]

  Prints the values of a level as they are now, as a variable file for jobs that
  kolo topology expand has written. After a rack was added, print it again and run
  the job with it; -preserve-counts keeps the job's current workers:

      $ kolo topology vars -level meta.rack > racks.vars.hcl
      $ nomad job run -preserve-counts -var-file racks.vars.hcl racks.nomad.hcl

Vars Options:

  -level=<name>
    Level of the topology, such as meta.rack. Required.

  -pool=<name>
    Node pool of the job. Required if several pools have the level.
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *topologyVarsCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-level"], f["-pool"] = complete.PredictAnything, complete.PredictAnything
	return f
}

// Run implements cli.Command.
func (c *topologyVarsCommand) Run(args []string) int {
	f := c.apiFlags("topology vars")
	name, pool := f.String("level", "", ""), f.String("pool", "", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	level, err := levelOf(*name)
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	pools, err := c.pools(ctx, *pool)
	if err != nil {
		return c.fail(err)
	}
	v, err := valuesOf(pools, level.Name)
	if err != nil {
		return c.fail(err)
	}
	defer c.warnIfOld(ctx)
	for _, w := range v.warnings() {
		c.UI.Warn(w)
	}
	if c.json {
		return c.printJSON(map[string][]string{expand.Variable(level): v.names})
	}
	if _, err := c.out.Write(expand.Vars(level, v.names)); err != nil {
		return c.fail(fmt.Errorf("writing the values: %w", err))
	}
	return 0
}
