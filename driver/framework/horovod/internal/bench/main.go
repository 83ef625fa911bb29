// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command bench measures one full rendezvous of simulated processes (the six meshes
// of one initialisation), with package rendezvous and with Horovod's own server,
// and compares the two in one run.
//
//	go run ./driver/framework/horovod/internal/bench -python .venv/bin/python
//
// The simulated processes behave the same way with both: one TCP connection per
// request, a poll every 10 ms while a key is missing, three tries half a second
// apart, and a barrier before each DELETE. They do not connect to each other, so
// the result is the rendezvous alone. The agents and the leader run in the same
// process as the simulated ranks; Horovod's server runs in its own process.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// set is a sample hash of process set 0.
const set = "7d48533536350577"

type options struct {
	ranks   []int
	perHost int
	runs    int
	python  string
	// timeout is how long a run of Horovod's server may take.
	timeout time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	lines := []string{
		fmt.Sprintf("Six meshes, %d slots per host, median of %d runs [fastest, slowest], in seconds.\n", o.perHost, o.runs),
		"| ranks | Kolo | Horovod's server | ratio | requests | leader messages |",
		"|---|---|---|---|---|---|",
	}
	for _, n := range o.ranks {
		row, err := measure(ctx, o, n)
		if err != nil {
			return fmt.Errorf("%d ranks: %w", n, err)
		}
		// Print each row as soon as it is measured: the big ones take minutes.
		if _, err := fmt.Fprintln(out, strings.Join(append(lines, row), "\n")); err != nil {
			return err
		}
		lines = nil
	}
	return nil
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	python := flags.String("python", os.Getenv("KOLO_PYTHON"), "Python that can import horovod; empty measures Kolo alone")
	perHost := flags.Int("slots", 8, "slots per host")
	runs := flags.Int("runs", 5, "runs of each")
	timeout := flags.Duration("timeout", 4*time.Minute, "how long one run of Horovod's server may take; after one that is not done there are no more of that size")
	ranks := flags.String("ranks", "8,16,32,64", "ring sizes")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{perHost: *perHost, runs: *runs, python: *python, timeout: *timeout}
	for _, s := range strings.Split(*ranks, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-ranks: %q is not a ring size", s)
		}
		o.ranks = append(o.ranks, n)
	}
	if o.perHost < 1 || o.runs < 1 {
		return o, fmt.Errorf("-slots %d and -runs %d must be at least 1", o.perHost, o.runs)
	}
	return o, nil
}

// measure returns one line of the table. Runs of the two servers alternate, so that
// other load on the machine affects both.
func measure(ctx context.Context, o options, n int) (string, error) {
	var perHost []int
	for left := n; left > 0; left -= o.perHost {
		perHost = append(perHost, min(left, o.perHost))
	}
	slots := ringsim.Slots(perHost...)
	var server *upstream
	if o.python != "" {
		var err error
		if server, err = startUpstream(ctx, o.python); err != nil {
			return "", err
		}
		defer func() { _ = server.stop() }()
	}
	var ours, theirs []time.Duration
	var requests, messages int64
	var gaveUp bool
	for i := range o.runs {
		seed := strconv.Itoa(i)
		ring, took, err := runOurs(ctx, slots, seed)
		if err != nil {
			return "", fmt.Errorf("kolo: %w", err)
		}
		requests, messages = ring.Requests.Load(), ring.Messages.Load()
		ours = append(ours, took)
		progress(n, i, "Kolo", took, nil)
		if server == nil || gaveUp {
			continue
		}
		took, err = runTheirs(ctx, o.timeout, server, slots, seed)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		gaveUp = err != nil
		theirs = append(theirs, took)
		progress(n, i, "Horovod's server", took, err)
	}
	them, ratio := "–", "–"
	if server != nil {
		them = spread(theirs)
		ratio = fmt.Sprintf("%.1f", median(theirs).Seconds()/median(ours).Seconds())
	}
	if gaveUp {
		last := theirs[len(theirs)-1]
		them = fmt.Sprintf("run %d not done after %.0f", len(theirs), last.Seconds())
		ratio = "–"
	}
	return fmt.Sprintf("| %d | %s | %s | %s | %d | %d |", n, spread(ours), them, ratio, requests, messages), nil
}

// progress prints a line for each run, since a run of Horovod's server with many
// ranks takes a minute.
func progress(ranks, run int, whose string, took time.Duration, err error) {
	how := ""
	if err != nil {
		how = ", not done: " + err.Error()
	}
	fmt.Fprintf(os.Stderr, "%d ranks, run %d, %s: %.3f s%s\n", ranks, run+1, whose, took.Seconds(), how)
}

func runOurs(ctx context.Context, slots []rendezvous.Slot, seed string) (*ringsim.Simulation, time.Duration, error) {
	ring, err := ringsim.Start(slots, ringsim.AnyPeer{})
	if err != nil {
		return nil, 0, err
	}
	defer ring.Close()
	start := time.Now()
	err = ring.Initialize(ctx, set, seed)
	return ring, time.Since(start), err
}

// runTheirs stops after a time-out. A server that many processes poll every 10 ms
// may spend all its time on answering that the key is missing.
func runTheirs(ctx context.Context, timeout time.Duration, u *upstream, slots []rendezvous.Slot, seed string) (time.Duration, error) {
	if err := u.begin(slots); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	err := ringsim.Initialize(ctx, slots, set, seed, u.client)
	return time.Since(start), err
}

func spread(runs []time.Duration) string {
	return fmt.Sprintf("%.3f [%.3f, %.3f]", median(runs).Seconds(), slices.Min(runs).Seconds(), slices.Max(runs).Seconds())
}

func median(runs []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(runs))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
