// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/report"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// simulateCommand compares policies on a trace.
type simulateCommand struct {
	meta
	args simulateArgs
}

var _ cli.CommandAutocomplete = (*simulateCommand)(nil)

// Synopsis implements cli.Command.
func (c *simulateCommand) Synopsis() string { return "Compare scheduling policies on a trace" }

// Help implements cli.Command.
func (c *simulateCommand) Help() string {
	var b strings.Builder
	b.WriteString(`Usage: kolo simulate [options]

  Runs scheduling policies on a workload in virtual time and compares them.
  Without a trace, it generates a workload, so this works without options:

      $ kolo simulate

  Compare two policies, one of them twice with different information, on a
  trace, at two loads and three resize costs, with confidence intervals:

      $ kolo simulate -policy 'fifo,afs-l@oracle,afs-l@blind' \
          -trace jobs.csv -loads 0.5,1 -resize-costs 1,30,120 -seeds 5 \
          -html report.html

  A policy is written with its options in parentheses, and with an information
  class after an @, such as 'tiresias(thresholds=[57600])@blind'.
  Files are written completely or not at all. "-" is the standard output; no
  table is printed then.

Information classes:

`)
	for _, class := range []string{"oracle", "curves", "declared", "kinds", "blind"} {
		fmt.Fprintf(&b, "  %-9s %s\n", class, sim.Classes[class])
	}
	b.WriteString("\nOptions:\n")
	var args simulateArgs
	printFlags(&b, args.flags(c.flags("simulate")))
	return b.String()
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *simulateCommand) AutocompleteFlags() complete.Flags {
	var args simulateArgs
	out := complete.Flags{}
	args.flags(c.flags("simulate")).VisitAll(func(f *flag.Flag) { out["-"+f.Name] = complete.PredictAnything })
	for _, f := range []string{"-trace", "-curves", "-placements", "-phases", "-events", "-json", "-csv", "-html", "-jobs", "-markdown", "-config"} {
		out[f] = complete.PredictFiles("*")
	}
	out["-policy"] = complete.PredictSet(builtin.Policies.Names()...)
	out["-information"] = complete.PredictSet("oracle", "curves", "declared", "kinds", "blind")
	out["-placement"] = complete.PredictSet(sim.Placements()...)
	out["-errors"] = complete.PredictSet("strict", "skip")
	var formats []string
	for _, f := range trace.Formats() {
		formats = append(formats, string(f))
	}
	out["-format"] = complete.PredictSet(formats...)
	return out
}

// Run implements cli.Command.
func (c *simulateCommand) Run(args []string) int {
	f := c.args.flags(c.flags("simulate"))
	if err := f.Parse(args); err != nil {
		return c.usage(err, f, c.Help())
	}
	if f.NArg() > 0 {
		return c.usage(fmt.Errorf("simulate takes no arguments, got %q; a trace is named with -trace", f.Args()), f, c.Help())
	}
	ctx, stop := c.interruptible()
	defer stop()
	var wrong flagError
	switch err := c.simulate(ctx); {
	case errors.As(err, &wrong):
		return c.usage(err, f, c.Help())
	case err != nil:
		c.UI.Error(err.Error())
		return 1
	}
	return 0
}

func (c *simulateCommand) simulate(ctx context.Context) error {
	sweep, skipped, err := c.args.sweep()
	if err != nil {
		return err
	}
	for i, e := range skipped {
		if i == 10 {
			c.UI.Warn(fmt.Sprintf("and %d more", len(skipped)-i))
			break
		}
		c.UI.Warn("skipped: " + e.Error())
	}
	bar := newProgress(os.Stderr)
	sweep.Progress = bar.step
	out, err := sweep.Run(ctx)
	bar.end()
	if err != nil {
		return err
	}
	return c.write(out)
}

// write writes all requested reports.
func (c *simulateCommand) write(out *sim.Comparison) error {
	stdout := false
	for _, r := range []struct {
		path  string
		write func(io.Writer, *sim.Comparison) error
	}{
		{c.args.json, report.JSON},
		{c.args.csv, report.CSV},
		{c.args.jobs, report.JobsCSV},
		{c.args.html, report.HTML},
		{c.args.markdown, report.Markdown},
	} {
		if r.path == "" {
			continue
		}
		var b bytes.Buffer
		if err := r.write(&b, out); err != nil {
			return err
		}
		if r.path == "-" {
			stdout = true
			c.UI.Output(strings.TrimRight(b.String(), "\n"))
			continue
		}
		if err := os.WriteFile(r.path, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if stdout {
		return nil
	}
	var b strings.Builder
	if err := report.Table(&b, out); err != nil {
		return err
	}
	if err := report.Queues(&b, out); err != nil {
		return err
	}
	c.UI.Output(report.Heading(out) + "\n\n" + strings.TrimRight(b.String(), "\n"))
	return nil
}

// printFlags writes the help of each flag in Nomad's style.
func printFlags(b *strings.Builder, f *flag.FlagSet) {
	f.VisitAll(func(f *flag.Flag) {
		kind, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(b, "\n  -%s", f.Name)
		if kind != "" {
			fmt.Fprintf(b, "=<%s>", kind)
		}
		b.WriteString("\n")
		for _, line := range strings.Split(usage, "\n") {
			fmt.Fprintf(b, "    %s\n", line)
		}
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			fmt.Fprintf(b, "    Default: %s\n", f.DefValue)
		}
	})
}
