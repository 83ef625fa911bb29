// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/posener/complete"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// logsCommand prints the logs of all ranks of a job. The autoscaler names the allocations, and
// Nomad has their logs.
type logsCommand struct {
	apiCommand
	out   io.Writer     // os.Stdout if nil
	every time.Duration // between two looks for new allocations, 2 s if 0
}

// Synopsis implements cli.Command.
func (c *logsCommand) Synopsis() string { return "Print the logs of all ranks of a job" }

// Help implements cli.Command.
func (c *logsCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo logs [options] [<namespace>/]<job>

  Prints the last lines of the logs of a job's allocations, each with the rank
  that its slot has now, or with the allocation if the rank is not known. Lines that
  were written before the last change of size have that rank, too. With -f, it
  prints new lines as they arrive, and follows allocations that join later.

  The logs come from Nomad, with your token, which needs the capabilities read-job
  and read-logs in the job's namespace. Nomad's address and TLS settings are those
  of the environment (NOMAD_ADDR, NOMAD_CACERT ...). Nomad's logs have no times:
  without -f, allocations are printed one after the other, in the order of ranks.

  With -json, each line is one JSON object.

Logs Options:

  -f
    Follow the logs until interrupted.

  -n=<lines>
    How many of the last lines of each allocation to print first, at most 1000.
    Default: 20

  -rank=<number>
    Print only lines of this rank.

  -stderr
    Print the standard error of the tasks. Default: the standard output

  -task=<name>
    Task of the allocations. The default is the task of the driver torch or
    horovod, or else the only task.
` + apiHelp)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *logsCommand) AutocompleteFlags() complete.Flags {
	f := c.apiCommand.AutocompleteFlags()
	f["-f"], f["-stderr"] = complete.PredictNothing, complete.PredictNothing
	f["-n"], f["-rank"], f["-task"] = complete.PredictAnything, complete.PredictAnything, complete.PredictAnything
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *logsCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

const (
	mostTail = 1000 // lines

	// mostLogs bounds the logs that are followed at the same time: each is a connection.
	mostLogs = 128
)

// Run implements cli.Command.
func (c *logsCommand) Run(args []string) int {
	f := c.apiFlags("logs")
	o := logOptions{kind: "stdout"}
	f.BoolVar(&o.follow, "f", false, "")
	f.IntVar(&o.tail, "n", 20, "")
	f.IntVar(&o.rank, "rank", anyRank, "")
	f.StringVar(&o.task, "task", "", "")
	stderr := f.Bool("stderr", false, "")
	rest, code, ok := c.parse(f, args, 1, 1, c.Help())
	switch {
	case !ok:
		return code
	case o.tail < 0 || o.tail > mostTail:
		return c.usage(badFlag("-n=%d: write a number from 0 to %d", o.tail, mostTail), f, c.Help())
	case o.rank < anyRank:
		return c.usage(badFlag("-rank=%d: write the number of a rank", o.rank), f, c.Help())
	}
	if *stderr {
		o.kind = "stderr"
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	if err := c.logs(ctx, splitJob(rest[0]), o); err != nil && ctx.Err() == nil {
		return c.fail(err)
	}
	return 0
}

// logs prints logs, with o.follow until ctx ends.
func (c *logsCommand) logs(ctx context.Context, key identity.JobKey, o logOptions) error {
	nomad, err := cluster.NewClient(config.Nomad{Token: c.token, Namespace: key.Namespace, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	p := &logPrinter{out: cmp.Or[io.Writer](c.out, os.Stdout), json: c.json, rank: o.rank}
	r := &logReader{nomad: nomad, namespace: key.Namespace, logOptions: o, printer: p}
	list, err := c.allocations(ctx, key)
	if err != nil {
		return err
	}
	p.update(list)
	if o.follow {
		return c.follow(ctx, key, r, list)
	}
	if o.rank != anyRank && !slices.ContainsFunc(list, func(a api.JobAllocation) bool { return slices.Contains(a.Ranks, o.rank) }) {
		return fmt.Errorf("%s has no rank %d now; kolo job shows its size", key, o.rank)
	}
	for i := range list {
		if o.rank != anyRank && !slices.Contains(list[i].Ranks, o.rank) {
			continue
		}
		if _, err := r.read(ctx, list[i].ID, o.tail); err != nil {
			return fmt.Errorf("allocation %s: %w", list[i].ID, err)
		}
	}
	return nil
}

// allocations returns the allocations of a job in the order of their ranks. Those without a
// rank are last.
func (c *logsCommand) allocations(ctx context.Context, key identity.JobKey) ([]api.JobAllocation, error) {
	var j api.Job
	if _, err := c.call(ctx, http.MethodGet, "/v1/job", url.Values{"namespace": {key.Namespace}, "id": {key.ID}}, nil, &j); err != nil {
		return nil, err
	}
	if len(j.Allocations) == 0 {
		return nil, fmt.Errorf("%s has no allocation now", key)
	}
	first := func(a *api.JobAllocation) (int, int) {
		if len(a.Ranks) == 0 {
			return 1, 0
		}
		return 0, slices.Min(a.Ranks)
	}
	slices.SortFunc(j.Allocations, func(a, b api.JobAllocation) int {
		an, ar := first(&a)
		bn, br := first(&b)
		return cmp.Or(cmp.Compare(an, bn), cmp.Compare(ar, br), cmp.Compare(a.ID, b.ID))
	})
	return j.Allocations, nil
}

// outcome is how the reading of an allocation's log ended.
type outcome struct {
	alloc string
	live  bool // its last lines were printed
	err   error
}

// follow follows the logs of allocations, and of those that join later. If a log cannot be
// read, for example because its task has not started yet, it tries again.
func (c *logsCommand) follow(ctx context.Context, key identity.JobKey, r *logReader, list []api.JobAllocation) error {
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	defer func() {
		cancel()
		_ = g.Wait() // outcomes have the errors
	}()
	outcomes := make(chan outcome, mostLogs)
	reading, warned, tails, many := map[string]bool{}, map[string]bool{}, map[string]int{}, false
	under := 0
	tick := time.NewTicker(cmp.Or(c.every, 2*time.Second))
	defer tick.Stop()
	for {
		for i := range list {
			id := list[i].ID
			switch {
			case reading[id]:
			case under < mostLogs:
				reading[id] = true
				under++
				tail, again := tails[id]
				if !again {
					tail = r.tail
				}
				g.Go(func() error {
					live, err := r.read(ctx, id, tail)
					outcomes <- outcome{id, live, err}
					return nil
				})
			case !many:
				many = true
				c.UI.Warn(fmt.Sprintf("at most %d logs are followed at the same time", mostLogs))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case o := <-outcomes:
			under--
			if o.live {
				tails[o.alloc] = 0
			}
			if o.err == nil {
				continue // it stays marked: the log is complete
			}
			if !warned[o.alloc] && ctx.Err() == nil {
				warned[o.alloc] = true
				c.UI.Warn(printable.Text(fmt.Sprintf("allocation %s: %v; trying again", o.alloc, o.err)))
			}
			list = slices.DeleteFunc(slices.Clone(list), func(a api.JobAllocation) bool { return a.ID == o.alloc }) // until the next look
			delete(reading, o.alloc)
		case <-tick.C:
			now, err := c.allocations(ctx, key)
			if errors.Is(err, api.ErrNotFound) {
				return err
			}
			if err == nil {
				list = now
				r.printer.update(now)
			}
		}
	}
}
