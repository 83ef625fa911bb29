// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// usageCommand shows what was used, by whom and for what.
type usageCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *usageCommand) Synopsis() string { return "Show who used how many slots, and for what" }

// Help implements cli.Command.
func (c *usageCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo usage [options]

  Shows the slot-hours that elastic jobs held, and the share of them that was
  productive. The others were starting, resizing, lost to failures, idle, or
  unknown because a job does not report its steps.

      $ kolo usage -by namespace -since 2026-11-01 -format csv > november.csv

Usage Options:

  -by=<what>
    Add up by queue, namespace, job, kind, pool or day. Default: queue

  -since=<period>
    A number of days including today, such as 7d, or the first day, such as
    2026-11-01. Days begin at midnight UTC. Default: 30d

  -pool=<name>
    Show this node pool only. Default: all

  -namespace=<name>
    Show this namespace only. Default: all that may be read

  -sort=<column>
    held, wasted (starting, resizing, lost and idle), idle, lost, unknown,
    waiting or failures, the largest first; or name. Days are always in order
    of time. Default: held

  -format=<format>
    table, csv (in slot-seconds) or json. Default: table
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *usageCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	var by []string
	for _, b := range usage.Groupings() {
		by = append(by, string(b))
	}
	f["-by"], f["-sort"], f["-format"] = complete.PredictSet(by...), complete.PredictSet(usageOrders...), complete.PredictSet("table", "csv", "json")
	f["-since"], f["-pool"], f["-namespace"] = complete.PredictAnything, complete.PredictAnything, complete.PredictAnything
	return f
}

// Run implements cli.Command.
func (c *usageCommand) Run(args []string) int {
	f := c.apiFlags("usage")
	by, since := f.String("by", "queue", ""), f.String("since", "30d", "")
	pool, namespace := f.String("pool", "", ""), f.String("namespace", "", "")
	order, format := f.String("sort", "", ""), f.String("format", "table", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	err := checkPeriod(*by, *since)
	switch {
	case err != nil:
	case *order != "" && !slices.Contains(usageOrders, *order):
		err = badFlag("-sort=%s: write one of %s", *order, strings.Join(usageOrders, ", "))
	case !slices.Contains([]string{"table", "csv", "json"}, *format):
		err = badFlag("-format=%s: write table, csv or json", *format)
	}
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	s, r, err := c.readUsage(ctx, url.Values{"by": {*by}, "since": {*since}, "pool": {*pool}, "namespace": {*namespace}})
	if err != nil {
		return c.fail(err)
	}
	defer c.warnOld(s)
	sortUsage(r.Rows, *order, r.By)
	switch {
	case c.json || *format == "json":
		return c.printJSON(r)
	case *format == "csv":
		c.UI.Output(strings.TrimRight(usageCSV(r), "\n"))
	default:
		c.show(nil, func() string {
			if len(r.Rows) == 0 {
				return drawUsage(r) + restriction(*pool, *namespace)
			}
			return drawUsage(r)
		})
	}
	return 0
}

// restriction returns the end of a message that nothing was found: the pool and namespace that were
// searched.
func restriction(pool, namespace string) (text string) {
	if pool != "" {
		text += fmt.Sprintf(" in node pool %q", pool)
	}
	if namespace != "" {
		text += fmt.Sprintf(" by jobs of namespace %q", namespace)
	}
	return text
}

// checkPeriod checks the flags -by and -since.
func checkPeriod(by, since string) error {
	if _, err := usage.ParseBy(by); err != nil {
		return badFlag("-by=%v", err)
	}
	if _, err := usage.ParseSince(since, time.Now()); err != nil {
		return badFlag("-since=%v", err)
	}
	return nil
}

// readUsage reads the status of an autoscaler, which must be ready, and its usage.
func (c *apiCommand) readUsage(ctx context.Context, query url.Values) (*api.Status, *api.UsageReport, error) {
	s, err := c.readStatus(ctx)
	if err != nil {
		return nil, nil, err
	}
	var r api.UsageReport
	_, err = c.call(ctx, http.MethodGet, "/v1/usage", query, nil, &r)
	return s, &r, err
}

// usageOrders are the values of -sort.
var usageOrders = []string{"held", "wasted", "idle", "lost", "unknown", "waiting", "failures", "name"}

// sortUsage sorts rows, the largest first. The autoscaler has sorted them by name or day.
func sortUsage(rows []api.UsageRow, order string, by usage.By) {
	if order == "name" || order == "" && by == usage.ByDay {
		return
	}
	value := func(r *api.UsageRow) float64 {
		switch order {
		case "wasted":
			return r.Wasted()
		case "idle":
			return r.Idle
		case "lost":
			return r.Lost
		case "unknown":
			return r.Unknown
		case "waiting":
			return r.Waiting
		case "failures":
			return float64(r.Failures)
		}
		return r.Held
	}
	slices.SortStableFunc(rows, func(a, b api.UsageRow) int { return cmp.Compare(value(&b), value(&a)) })
}

// usageNames returns the columns that identify a row, and their heading.
func usageNames(by usage.By) (heading []string, names func(*api.UsageRow) []string) {
	switch by {
	case usage.ByQueue:
		return []string{"Queue", "Pool"}, func(r *api.UsageRow) []string { return []string{r.Queue, r.Pool} }
	case usage.ByNamespace:
		return []string{"Namespace"}, func(r *api.UsageRow) []string { return []string{cmp.Or(r.Namespace, "(others)")} }
	case usage.ByJob:
		return []string{"Job", "Namespace"}, func(r *api.UsageRow) []string { return []string{cmp.Or(r.Job, "(others)"), r.Namespace} }
	case usage.ByKind:
		return []string{"Kind", "Namespace"}, func(r *api.UsageRow) []string { return []string{cmp.Or(r.Kind, "-"), r.Namespace} }
	case usage.ByPool:
		return []string{"Pool"}, func(r *api.UsageRow) []string { return []string{r.Pool} }
	case usage.ByDay:
	}
	return []string{"Day"}, func(r *api.UsageRow) []string { return []string{r.Day} }
}

func drawUsage(r *api.UsageReport) string {
	title := fmt.Sprintf("Slot-hours from %s to %s (UTC)\n\n", r.From, r.To)
	if len(r.Rows) == 0 {
		return title + "no slots were held"
	}
	heading, names := usageNames(r.By)
	rows := [][]string{append(heading, "Held", "Share", "Productive", "Starting", "Resizing", "Lost", "Spare", "Idle", "Unknown", "Waiting", "Resizes", "Failures", "Evictions")}
	for i := range r.Rows {
		u := &r.Rows[i]
		rows = append(rows, append(names(u), hours(u.Held), shareText(u.Share), hours(u.Productive), hours(u.Starting), hours(u.Resizing), hours(u.Lost), hours(u.Spare), hours(u.Idle), hours(u.Unknown),
			hours(u.Waiting), strconv.Itoa(u.Resizes), strconv.Itoa(u.Failures), strconv.Itoa(u.Evictions)))
	}
	return title + table(rows)
}

// hours returns a number of seconds in hours.
func hours(s float64) string { return strconv.FormatFloat(s/3600, 'f', 2, 64) }

func shareText(share *float64) string {
	if share == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f%%", 100**share)
}

// usageCSV returns the rows as CSV, in seconds and slot-seconds.
func usageCSV(r *api.UsageReport) string {
	var out strings.Builder
	w := csv.NewWriter(&out)
	heading, names := usageNames(r.By)
	for i := range heading {
		heading[i] = strings.ToLower(heading[i])
	}
	rows := [][]string{append(heading, "held", "productive", "starting", "resizing", "lost", "idle", "unknown", "productive_share", "waiting", "resizes", "failures", "evictions", "spare")}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	for i := range r.Rows {
		u, share := &r.Rows[i], ""
		if u.Share != nil {
			share = strconv.FormatFloat(*u.Share, 'f', 6, 64)
		}
		row := names(u)
		for i := range row {
			row[i] = formula(printable.Line(row[i]))
		}
		rows = append(rows, append(row, number(u.Held), number(u.Productive), number(u.Starting), number(u.Resizing), number(u.Lost), number(u.Idle), number(u.Unknown),
			share, number(u.Waiting), strconv.Itoa(u.Resizes), strconv.Itoa(u.Failures), strconv.Itoa(u.Evictions), number(u.Spare)))
	}
	_ = w.WriteAll(rows) // a strings.Builder does not fail
	return out.String()
}

// formula quotes a name that a spreadsheet would take for a formula.
func formula(name string) string {
	if name != "" && strings.ContainsRune("=+-@", rune(name[0])) && name != "-" {
		return "'" + name
	}
	return name
}
