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
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// options are the command line's.
type options struct {
	seed, seeds uint64
	length      time.Duration
	maxRanks    int
	root        string
	framework   train.Framework
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
	for seed := o.seed; seed < o.seed+o.seeds && ctx.Err() == nil; seed++ {
		if err := run(ctx, o, seed); err != nil {
			fmt.Printf("seed %d: FAILED: %v\n", seed, err)
			failed++
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
	flags.IntVar(&o.maxRanks, "max-ranks", 6, "most processes at a time")
	framework := flags.String("framework", train.Horovod.Name, "what to train with: horovod or torch")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.framework, err = train.Named(*framework); err != nil {
		return nil, fmt.Errorf("-framework: %w", err)
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("%q: no arguments are taken", flags.Arg(0))
	case o.seeds < 1:
		return nil, errors.New("-seeds: at least 1")
	case o.maxRanks < 1:
		return nil, errors.New("-max-ranks: at least 1")
	case o.length <= 0:
		return nil, errors.New("-for: must be positive")
	}
	if o.root, err = os.Getwd(); err != nil {
		return nil, err
	}
	if err := o.framework.Check(o.root); err != nil {
		return nil, fmt.Errorf("%w (run `make chaos FRAMEWORK=%s` in the project's root)", err, o.framework.Name)
	}
	return o, nil
}
