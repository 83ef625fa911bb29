// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// queueCommand shows the queues of node pools, and what waits in them.
type queueCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *queueCommand) Synopsis() string { return "Show queues, and what waits in them" }

// Help implements cli.Command.
func (c *queueCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo queue [options]

  Shows the queues of each node pool: their guarantees and limits, and the slots
  that they use and have borrowed. For queues with a half-life, it shows the
  decayed slot-hours that they borrowed, and for queues with a budget, the
  slot-hours used. Then it shows the waiting jobs in the order of their queue:
  the slots that they need at least, when they are expected to start, and why
  they wait. The queue "*" stands for jobs that are in no configured queue.

Queue Options:

  -pool=<name>
    Show this node pool only. Default: all

  -queue=<name>
    Show this queue only, and those inside it. Default: all
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *queueCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-pool"], f["-queue"] = complete.PredictAnything, complete.PredictAnything
	return f
}

// Run implements cli.Command.
func (c *queueCommand) Run(args []string) int {
	f := c.apiFlags("queue")
	pool, name := f.String("pool", "", ""), f.String("queue", "", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	s, err := c.readStatus(ctx)
	var pools []poolQueues
	if err == nil {
		pools, err = queuesOf(s, *pool, *name)
	}
	if err != nil {
		return c.fail(err)
	}
	defer c.warnOld(s)
	if c.json {
		return c.printJSON(pools)
	}
	c.show(nil, func() string { return drawPools(pools, drawQueues) })
	return 0
}

// drawPools returns the tables of all pools, of which draw returns those of one.
func drawPools[T any](pools []T, draw func(*T) string) string {
	var parts []string
	for i := range pools {
		parts = append(parts, draw(&pools[i]))
	}
	return cmp.Or(strings.Join(parts, "\n\n"), "there are no nodes")
}

// drawQueues returns the tables of one pool.
func drawQueues(p *poolQueues) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Pool %s with %s: %d of %s used\n\n", p.Pool, p.Policy, p.Used, counted(p.Capacity, "slot"))
	rows := [][]string{{"Queue", "Guarantee", "Limit", "Used", "Borrowed", "Waiting"}}
	for _, q := range p.Queues {
		rows = append(rows, []string{
			strings.Repeat("  ", q.depth) + q.Name, orDash(q.Guarantee), orDash(q.Limit), strconv.Itoa(q.Used), strconv.Itoa(q.Borrowed), strconv.Itoa(q.Waiting),
		})
	}
	addPast(rows, p.Queues)
	out.WriteString(table(rows) + "\n\n")
	if len(p.Jobs) == 0 {
		return out.String() + "no job waits"
	}
	rows = [][]string{{"Queue", "#", "Job", "Namespace", "Slots", "Waiting since", "Expected start", "Why"}}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		rows = append(rows, []string{
			j.Queue, orDash(j.Position), j.ID, j.Namespace, strconv.Itoa(j.Slots), j.Since.Format(time.DateTime), expectedStart(j.Expected), why(&j.Waits),
		})
	}
	return out.String() + table(rows)
}

// why returns why a job waits: the reason and, if there is one, its sentence.
func why(w *api.Waits) string { return strings.TrimSuffix(string(w.Reason)+": "+w.Sentence, ": ") }

// addPast adds a column with the slot-hours that queues borrowed, and one with their
// budgets. It omits a column that would be empty. The first of rows holds the headings.
func addPast(rows [][]string, queues []queueRow) {
	if slices.ContainsFunc(queues, func(q queueRow) bool { return q.Decayed != nil }) {
		rows[0] = append(rows[0], "Decayed")
		for i, q := range queues {
			text := "-"
			if q.Decayed != nil {
				text = fmt.Sprintf("%.1f", *q.Decayed)
			}
			rows[i+1] = append(rows[i+1], text)
		}
	}
	if slices.ContainsFunc(queues, func(q queueRow) bool { return q.Budget != nil }) {
		rows[0] = append(rows[0], "Budget")
		for i, q := range queues {
			text := "-"
			if b := q.Budget; b != nil {
				text = fmt.Sprintf("%s of %s per %s", slotHours(b.Used), strconv.FormatFloat(b.SlotHours, 'f', -1, 64), b.Per)
			}
			rows[i+1] = append(rows[i+1], text)
		}
	}
}

// slotHours returns slot-hours with one decimal, or with more if they are few.
func slotHours(n float64) string {
	if n > 0 && n < 10 {
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// expectedStart returns the time at which a job that waits is expected to
// start.
func expectedStart(e *api.Expected) string {
	if e == nil || e.Earliest.IsZero() {
		return "unknown"
	}
	clock := func(t time.Time) string {
		t = t.In(e.Made.Location())
		if t.Format(time.DateOnly) == e.Made.Format(time.DateOnly) {
			return t.Format("15:04")
		}
		return t.Format("2006-01-02 15:04")
	}
	earliest, latest := clock(e.Earliest), clock(e.Latest)
	switch {
	case e.Latest.IsZero():
		return "not before " + earliest
	case earliest == latest:
		return earliest
	}
	return earliest + " – " + latest
}

// orDash returns a number, or "-" for 0, which means that there is none.
func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
