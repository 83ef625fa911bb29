// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// stacksTime bounds the whole of kolo stacks.
const stacksTime = 10 * time.Second

// stacksCommand shows where the processes of a job are. It asks Nomad, not the autoscaler.
type stacksCommand struct {
	apiCommand
	limit time.Duration // stacksTime if 0
	// connect returns Nomad, the one of the environment if it is nil.
	connect func() (allocations, error)
}

// Synopsis implements cli.Command.
func (c *stacksCommand) Synopsis() string {
	return "Show the Python stacks of a job's ranks, odd ones first"
}

// Help implements cli.Command.
func (c *stacksCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo stacks [options] [<namespace>/]<job>

  Takes the Python stacks of all ranks of a running job, and groups ranks with
  equal stacks. Small groups come first: if a job hangs, most ranks wait in the
  same call, and the rank that they wait for is elsewhere. Below a rank are its
  child processes, such as the workers of a data loader. Takes at most 10 s, and
  names the allocations that have not answered by then.

  Runs a command in each allocation, like nomad alloc exec, with the address and
  the token of the NOMAD_* environment. The token needs read-job and alloc-exec
  in the job's namespace; for the drivers torch, horovod and raw_exec also
  alloc-node-exec. It needs no rights on the clients, and asks no autoscaler.

  Stacks are taken by py-spy if it is installed where the job runs and may look
  at its processes. Otherwise each process that has imported kolo writes its own.

Stacks Options:

  -rank=<number>
    Show one rank only, with all its threads and frames.

  -o=<format>
    text (default) or json, which has all frames of all threads.
`)
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *stacksCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-rank": complete.PredictAnything, "-o": complete.PredictSet("text", "json")}
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *stacksCommand) AutocompleteArgs() complete.Predictor { return c.predictJobs() }

// Run implements cli.Command.
func (c *stacksCommand) Run(args []string) int {
	f := c.flags("stacks")
	rank, format := f.Int("rank", anyRank, ""), f.String("o", "text", "")
	err := parse(f, args, 1, 1)
	switch {
	case err != nil:
	case *rank < anyRank:
		err = badFlag("-rank=%d: write a number of at least 0", *rank)
	case *format != "text" && *format != "json":
		err = badFlag("-o=%s: write text or json", *format)
	}
	if err != nil {
		return c.usage(err, f, c.Help())
	}
	ctx, cancel := c.interruptible()
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, cmp.Or(c.limit, stacksTime))
	defer cancel()
	key := splitJob(f.Arg(0))
	from, err := c.nomad(key.Namespace)
	if err != nil {
		return c.fail(err)
	}
	job, err := takeStacks(ctx, from, key)
	if err == nil {
		err = job.only(*rank)
	}
	if err != nil {
		return c.fail(err)
	}
	if *format == "json" {
		return c.printJSON(job)
	}
	c.UI.Output(printable.Text(job.text(*rank != anyRank)))
	return 0
}

// anyRank is the value of -rank for all ranks.
const anyRank = -1

func (c *stacksCommand) nomad(namespace string) (allocations, error) {
	if c.connect != nil {
		return c.connect()
	}
	client, err := nomad.NewClient(nomad.DefaultConfig())
	if err != nil {
		return nil, fmt.Errorf("NOMAD_ADDR and the other variables of Nomad: %w", err)
	}
	return &nomadAllocations{client: client, namespace: namespace}, nil
}

// jobStacks are the stacks of a job, as kolo stacks -o=json prints them.
type jobStacks struct {
	Job   string    `json:"job"`
	Taken time.Time `json:"taken"`
	// Groups has the odd ranks first.
	Groups []rankGroup `json:"groups"`
	// Waiting are processes that wait for a place in the ring, such as those of spare hosts.
	Waiting []placedRank `json:"waiting,omitempty"`
	// Unanswered are the allocations that have not answered.
	Unanswered []unanswered `json:"unanswered,omitempty"`

	allocations int
}

// rankGroup is a number of ranks that do the same.
type rankGroup struct {
	Suspect bool         `json:"suspect"`
	Ranks   []placedRank `json:"ranks"`
}

// placedRank is a rank with its place in the cluster.
type placedRank struct {
	Alloc string `json:"alloc"`
	Node  string `json:"node"`
	stacks.Rank
}

// unanswered is an allocation that has not answered, and why.
type unanswered struct {
	Alloc   string `json:"alloc"`
	Node    string `json:"node"`
	Problem string `json:"problem"`
}

// group puts all ranks into groups.
func (j *jobStacks) group(all []placedRank) {
	slices.SortStableFunc(all, func(a, b placedRank) int {
		return cmp.Or(cmp.Compare(a.Rank.Rank, b.Rank.Rank), cmp.Compare(a.Alloc, b.Alloc), cmp.Compare(a.Slot, b.Slot))
	})
	inRing := func(r placedRank) bool { return r.Rank.Rank != stacks.NoRank }
	ranks := all
	if slices.ContainsFunc(all, inRing) { // otherwise all ranks wait, and one of them may hang
		at := slices.IndexFunc(all, inRing)
		j.Waiting, ranks = all[:at], all[at:]
	}
	for _, g := range stacks.Groups(ranks, func(r *placedRank) *stacks.Process { return &r.Process }) {
		j.Groups = append(j.Groups, rankGroup{Suspect: g.Suspect, Ranks: g.Members})
	}
}

// only drops all ranks but one, unless rank is anyRank.
func (j *jobStacks) only(rank int) error {
	if rank == anyRank {
		return nil
	}
	known := 0
	for i := range j.Groups {
		known += len(j.Groups[i].Ranks)
		j.Groups[i].Ranks = slices.DeleteFunc(j.Groups[i].Ranks, func(r placedRank) bool { return r.Rank.Rank != rank })
	}
	j.Groups = slices.DeleteFunc(j.Groups, func(g rankGroup) bool { return len(g.Ranks) == 0 })
	j.Waiting = nil
	if len(j.Groups) > 0 {
		return nil
	}
	var lost strings.Builder
	for _, u := range j.Unanswered {
		fmt.Fprintf(&lost, "; allocation %s on %s has not answered: %s", shortID(u.Alloc), u.Node, u.Problem)
	}
	return fmt.Errorf("%s has no rank %d among the %s that answered%s", j.Job, rank, counted(known, "rank"), lost.String())
}

// shortID returns the part of an allocation's ID by which users know it.
func shortID(id string) string { return id[:min(len(id), 8)] }
