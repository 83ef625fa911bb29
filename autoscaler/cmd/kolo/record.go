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
	"github.com/kolo-nomad/kolo/autoscaler/sim/record"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// recordCommand records the cluster's events in a file that simulate replays.
type recordCommand struct{ apiCommand }

// Synopsis implements cli.Command.
func (c *recordCommand) Synopsis() string { return "Record the cluster's jobs for simulations" }

// Help implements cli.Command.
func (c *recordCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo record [options] FILE

  Asks a running autoscaler for its status every few seconds, and writes arrivals,
  step times, resizes and ends of jobs to a new file (- is the standard
  output) until interrupted. To see that day under other policies:

      $ kolo record monday.jsonl
      $ kolo simulate -trace monday.jsonl -policy kolo,weighted-fair

  Node pools are recorded with the capacity they have at the start. Jobs that
  do not report progress cannot be replayed: add -errors skip to leave them out.

Record Options:

  -every=<time>
    How often to ask. Default: 5s

  -for=<time>
    End after this time. Default: when interrupted
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *recordCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-every"], f["-for"] = complete.PredictAnything, complete.PredictAnything
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *recordCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*") }

// Run implements cli.Command.
func (c *recordCommand) Run(args []string) int {
	f := c.apiFlags("record")
	every, limit := f.Duration("every", 5*time.Second, ""), f.Duration("for", 0, "")
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
		if file, err = os.OpenFile(rest[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
			return c.fail(err)
		}
	}
	err := c.record(ctx, file, *every)
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
