// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// eventTypes lists the types of events, in the order of the reference.
var eventTypes = []string{"resize", "moved", "complete", "failed", "idle", "late", "stalled", "straggler", "problem", "trouble", "policy", "pause", "reload", "leader"}

// eventsCommand prints events as they happen.
type eventsCommand struct {
	apiCommand
	out   io.Writer     // os.Stdout if nil
	pause time.Duration // before a new connection; 2 s if 0
}

// Synopsis implements cli.Command.
func (c *eventsCommand) Synopsis() string { return "Print events as they happen" }

// Help implements cli.Command.
func (c *eventsCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo events [options]

  Prints resizes, moves, failures, changes of policy and other events as they
  happen, until interrupted. If the stream ends, the command connects again and
  warns on standard error that events may be missing.

  With -json, each line is one JSON object.

Events Options:

  -job=[<namespace>/]<job>
    Print only events of this job. Default: all

  -type=<type>,...
    Print only events of these types: ` + strings.Join(eventTypes[:6], ", ") + `,
    ` + strings.Join(eventTypes[6:], ", ") + `. Default: all
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *eventsCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-job"], f["-type"] = c.predictJobs(), complete.PredictSet(eventTypes...)
	return f
}

// Run implements cli.Command.
func (c *eventsCommand) Run(args []string) int {
	f := c.apiFlags("events")
	job, types := f.String("job", "", ""), f.String("type", "", "")
	if _, code, ok := c.parse(f, args, 0, 0, c.Help()); !ok {
		return code
	}
	matches, err := eventFilter(*job, *types)
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	if err := c.follow(ctx, matches); err != nil {
		return c.fail(err)
	}
	return 0
}

// eventFilter returns the filter of -job and -type.
func eventFilter(job, types string) (func(*api.Event) bool, error) {
	var chosen []string
	if types != "" {
		chosen = strings.Split(types, ",")
	}
	for _, t := range chosen {
		if !slices.Contains(eventTypes, t) {
			return nil, badFlag("-type=%s: there is no type %q; write some of %s, separated by commas", types, t, strings.Join(eventTypes, ", "))
		}
	}
	key := splitJob(job)
	return func(e *api.Event) bool {
		return (chosen == nil || slices.Contains(chosen, e.Type)) && (job == "" || e.ID == key.ID && e.Namespace == key.Namespace)
	}, nil
}

// follow prints the events that match until ctx ends. It returns an error if the autoscaler
// cannot be reached at first, or if the output cannot be written.
func (c *eventsCommand) follow(ctx context.Context, matches func(*api.Event) bool) error {
	connected := false
	for ctx.Err() == nil {
		to, err := c.client(ctx)
		if err == nil {
			err = explained(to, c.stream(ctx, to, matches, func() {
				if connected {
					c.UI.Warn("connected again; events may be missing")
				}
				connected = true
			}))
		}
		if ctx.Err() != nil {
			break
		}
		var broken *writeError
		if err != nil && (!connected || errors.As(err, &broken)) {
			return err
		}
		if err == nil {
			err = errors.New("the autoscaler closed the connection")
		}
		c.UI.Warn(printable.Text("the stream of events ended: " + err.Error()))
		select {
		case <-ctx.Done():
		case <-time.After(cmp.Or(c.pause, 2*time.Second)):
		}
	}
	return nil //nolint:nilerr // an interrupt is no failure, although the stream reports an error
}

// writeError means that the output cannot be written.
type writeError struct{ error }

// stream prints the events that match until the stream ends. It calls ready once it is
// connected.
func (c *eventsCommand) stream(ctx context.Context, to *client, matches func(*api.Event) bool, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var broken error
	err := to.Events(ctx, ready, func(e api.Event) {
		if broken != nil || !matches(&e) {
			return
		}
		if _, err := fmt.Fprintln(cmp.Or[io.Writer](c.out, os.Stdout), c.line(&e)); err != nil {
			broken = &writeError{fmt.Errorf("writing events: %w", err)}
			cancel()
		}
	})
	return cmp.Or(broken, err)
}

// line returns an event as text, or as JSON with -json.
func (c *eventsCommand) line(e *api.Event) string {
	if c.json {
		text, err := json.Marshal(e)
		if err != nil {
			return "{}" // impossible: each field of an Event can be marshaled
		}
		return string(text)
	}
	return eventText(e)
}

// eventText returns an event as one line.
func eventText(e *api.Event) string {
	parts := []string{e.Time.Format(time.DateTime), e.Type}
	if e.Job != "" {
		parts = append(parts, e.Job)
	}
	if e.From != e.To {
		parts = append(parts, fmt.Sprintf("%d→%d", e.From, e.To))
	}
	if e.Cause != "" {
		parts = append(parts, e.Cause)
	}
	line := strings.Join(parts, "  ")
	if e.Reason != "" {
		line += ": " + e.Reason
	}
	return printable.Cell(line)
}
