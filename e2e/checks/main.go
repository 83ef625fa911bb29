// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command checks implements the parts of `make check` that need more than one command
// each:
//
//	go run ./e2e/checks fuzz          runs every fuzz target for a while
//	go run ./e2e/checks vuln          looks for known vulnerabilities
//	go run ./e2e/checks reproducible  builds the programs twice and compares them
//
// A check that cannot fail is worthless. So the tests of this package run each check
// on a module in which it must find an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// check is one of the checks. It writes its progress to w.
type check func(ctx context.Context, w io.Writer, args []string) error

var checks = map[string]check{
	"fuzz":         fuzzCheck,
	"vuln":         vulnCheck,
	"reproducible": reproducibleCheck,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) error {
	if len(args) == 0 || checks[args[0]] == nil {
		return errors.New("usage: go run ./e2e/checks fuzz|vuln|reproducible [-h]")
	}
	if err := checks[args[0]](ctx, w, args[1:]); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}
