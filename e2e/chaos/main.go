// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// options are the command line's.
type options struct {
	seed, seeds uint64
	// length is how long a run lasts, unless it is for a number of changes.
	length time.Duration
	// calm is how long the run may then take to reach a ring of all slots. The
	// longest pause before a slot's restart is a minute.
	calm       time.Duration
	changes    int
	maxRanks   int
	root       string
	stateMB    int
	samples    string
	frameworks []train.Framework
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	failed := 0
	for _, f := range o.frameworks {
		for seed := o.seed; seed < o.seed+o.seeds && ctx.Err() == nil; seed++ {
			if err := run(ctx, o, f, seed); err != nil {
				fmt.Printf("%s, seed %d: FAILED: %v\n", f.Name, seed, err)
				failed++
			}
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 1, "what happens, and when")
	flags.Uint64Var(&o.seeds, "seeds", 1, "runs, one after the other, with this and the following seeds")
	flags.DurationVar(&o.length, "for", time.Minute, "how long each goes on")
	flags.IntVar(&o.changes, "changes", 0, "resizes and kills that each makes, instead of -for; one process is spared for longer stretches")
	flags.DurationVar(&o.calm, "calm", 2*time.Minute, "how long it may take until a ring of all slots trains, once nothing more happens; a busy machine needs longer")
	flags.IntVar(&o.maxRanks, "max-ranks", 6, "most processes at a time")
	flags.IntVar(&o.stateMB, "state", 0, "megabytes of trained parameters: with 40 and more, PyTorch's newcomers receive them while others train")
	flags.StringVar(&o.samples, "samples", "", "file to append what processes had to, in JSON lines")
	frameworks := flags.String("framework", train.Horovod.Name, "what to train with: horovod, torch, or both")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(*frameworks, ",") {
		f, err := train.Named(name)
		if err != nil {
			return nil, fmt.Errorf("-framework: %w", err)
		}
		o.frameworks = append(o.frameworks, f)
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("%q: no arguments are taken", flags.Arg(0))
	case o.seeds < 1:
		return nil, errors.New("-seeds: at least 1")
	case o.maxRanks < 1:
		return nil, errors.New("-max-ranks: at least 1")
	case o.calm <= 0:
		return nil, errors.New("-calm: must be positive")
	case o.length <= 0:
		return nil, errors.New("-for: must be positive")
	case o.changes < 0:
		return nil, errors.New("-changes: at least 0")
	}
	var err error
	if o.root, err = os.Getwd(); err != nil {
		return nil, err
	}
	for _, f := range o.frameworks {
		if err := f.Check(o.root); err != nil {
			return nil, fmt.Errorf("%w (run `make chaos FRAMEWORK=%s` in the project's root)", err, f.Name)
		}
	}
	return o, nil
}
