// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/replay"
	"github.com/kolo-nomad/kolo/autoscaler/sim/record"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// recordCommand records the cluster in a file: its jobs for simulate, or what the web page
// shows for replay.
type recordCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *recordCommand) Synopsis() string {
	return "Record the cluster's jobs for simulations, or the web page for replays"
}

// Help implements cli.Command.
func (c *recordCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo record [options] FILE

  Asks a running autoscaler for its status every few seconds, and writes arrivals,
  step times, resizes and ends of jobs to a new file (- is the standard
  output) until interrupted. To see that day under other policies:

      $ kolo record monday.jsonl
      $ kolo simulate -trace monday.jsonl -policy kolo,weighted-fair

  With -page, it records what the web page shows instead, and kolo replay shows
  the page again on any machine, at any time of the recording:

      $ kolo record -page monday.kolo
      $ kolo replay monday.kolo

  Such a recording contains what your token may read, such as names of jobs and
  nodes, but no token. It has the details of 100 jobs at a time. If the command
  is killed, at most the last 256 answers are lost.

  For simulations, node pools are recorded with the capacity they have at
  the start. Jobs that do not report progress cannot be simulated: add
  -errors skip to leave them out.

Record Options:

  -every=<time>
    How often to ask. Default: 5s

  -for=<time>
    End after this time. Default: when interrupted

  -page
    Record what the web page shows, for kolo replay.
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *recordCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-every"], f["-for"], f["-page"] = complete.PredictAnything, complete.PredictAnything, complete.PredictNothing
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *recordCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*") }

// Run implements cli.Command.
func (c *recordCommand) Run(args []string) int {
	f := c.apiFlags("record")
	every, limit, page := f.Duration("every", 5*time.Second, ""), f.Duration("for", 0, ""), f.Bool("page", false, "")
	rest, code, ok := c.parse(f, args, 1, 1, c.Help())
	if !ok {
		return code
	}
	if *every <= 0 || *limit < 0 {
		return c.usage(errors.New("-every must be positive and -for must not be negative"), f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	if *limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, *limit)
		defer cancel()
	}
	file := os.Stdout
	if rest[0] != "-" {
		var err error
		if file, err = os.OpenFile(rest[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return c.fail(err)
		}
	}
	record := c.record
	if *page {
		record = c.recordPage
	}
	err := record(ctx, file, *every)
	if file != os.Stdout {
		err = cmp.Or(err, file.Close())
	}
	if err != nil {
		return c.fail(err)
	}
	return 0
}

// record writes events until ctx ends. If the autoscaler does not answer, it tries
// again: the autoscaler may be restarted during a recording.
func (c *recordCommand) record(ctx context.Context, w io.Writer, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var r record.Recorder
	away := false
	for {
		var s api.Status
		_, err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s)
		switch {
		case ctx.Err() != nil:
			return trace.WriteEvents(w, r.Close())
		case err != nil && !away:
			c.UI.Warn(err.Error() + "; asking on")
		case err == nil:
			if err := trace.WriteEvents(w, r.Take(&s)); err != nil {
				return err
			}
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return trace.WriteEvents(w, r.Close())
		case <-tick.C:
		}
	}
}

// recordPage writes what the web page shows until ctx ends.
func (c *recordCommand) recordPage(ctx context.Context, w io.Writer, every time.Duration) error {
	r := replay.Recorder{
		Every: every,
		Client: func(ctx context.Context) (*api.Client, error) {
			to, err := c.client(ctx)
			if err != nil {
				return nil, err
			}
			return to.Client, nil
		},
		Warn: func(err error) { c.UI.Warn(printable.Text(err.Error()) + "; asking on") },
	}
	return r.Record(ctx, w)
}
