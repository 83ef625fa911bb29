// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// historyCommand shows the jobs that held slots.
type historyCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *historyCommand) Synopsis() string { return "Show jobs that ran, and how they ended" }

// Help implements cli.Command.
func (c *historyCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo history [options]

  Shows the elastic jobs that held slots, newest first: when they held them, how
  many slot-hours, their productive share, resizes and failures, and how they
  ended. For each namespace and day, the jobs that held the most are kept;
  "(others)" is the sum of the other jobs.

History Options:

  -namespace=<name>
    Show this namespace only. Default: all that may be read

  -since=<period>
    A number of days including today, such as 30d, or the first day, such as
    2026-11-01. Days begin at midnight UTC. Default: 7d
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *historyCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-since"], f["-namespace"] = complete.PredictAnything, complete.PredictAnything
	return f
}

// Run implements cli.Command.
func (c *historyCommand) Run(args []string) int {
	f := c.apiFlags("history")
	namespace, since := f.String("namespace", "", ""), f.String("since", "7d", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	if err := checkPeriod("job", *since); err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	s, r, err := c.readUsage(ctx, url.Values{"by": {"job"}, "since": {*since}, "namespace": {*namespace}})
	if err != nil {
		return c.fail(err)
	}
	defer c.warnOld(s)
	r.Rows = slices.DeleteFunc(r.Rows, func(r api.UsageRow) bool { return r.Held == 0 })
	slices.SortStableFunc(r.Rows, func(a, b api.UsageRow) int { return b.Last.Compare(a.Last) })
	if c.json {
		return c.printJSON(r)
	}
	c.show(nil, func() string {
		if len(r.Rows) == 0 && *namespace != "" {
			return fmt.Sprintf("no job of namespace %q held slots since %s", *namespace, r.From)
		}
		return drawHistory(r)
	})
	return 0
}

func drawHistory(r *api.UsageReport) string {
	if len(r.Rows) == 0 {
		return "no job held slots since " + r.From
	}
	rows := [][]string{{"Job", "Namespace", "From", "To", "Time", "Slot-hours", "Share", "Resizes", "Failures", "End"}}
	for i := range r.Rows {
		u := &r.Rows[i]
		from, to, took := "-", "-", "-"
		if !u.First.IsZero() {
			from, to, took = u.First.Format(time.DateTime), u.Last.Format(time.DateTime), u.Last.Sub(u.First).Round(time.Second).String()
		}
		rows = append(rows, []string{
			cmp.Or(u.Job, "(others)"), u.Namespace, from, to, took, hours(u.Held), shareText(u.Share), strconv.Itoa(u.Resizes), strconv.Itoa(u.Failures), cmp.Or(u.End, "-"),
		})
	}
	return fmt.Sprintf("Jobs since %s (UTC)\n\n", r.From) + table(rows)
}
