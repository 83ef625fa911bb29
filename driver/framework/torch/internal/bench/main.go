// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command bench measures how simulated ranks form a process group over the agents'
// stores, and prints a table.
//
//	go run ./driver/framework/torch/internal/bench -ranks 64,256,1024
//
//	rank ── TCPStore's protocol ──> tcpstore.Server ──> store.Replica ──> store.Sequencer
//	                                 (per rank)           (per host)
//
// Each rank sends the requests that gloo sends to form one process group: it stores its own
// addresses, waits twice for the addresses of every other rank, and reads them. The ranks
// do not connect to each other. Everything, including agents and leader, runs in one
// process, so the measured time is the sum of all hosts' processor time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	perHost := flags.Int("slots", 8, "slots per host")
	runs := flags.Int("runs", 3, "runs of each")
	list := flags.String("ranks", "8,64,256,1024", "sizes of the group")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *perHost < 1 || *runs < 1 {
		return errors.New("-slots and -runs must be at least 1")
	}
	_, _ = fmt.Fprintf(out, "One group, %d slots per host, all in one process on this machine; median of %d runs (of more than %d ranks: one) [fastest, slowest].\n\n"+
		"| ranks | seconds | requests of ranks | messages of agents and leader | MB in them |\n|---|---|---|---|---|\n", *perHost, *runs, once)
	for text := range strings.SplitSeq(*list, ",") {
		ranks, err := strconv.Atoi(text)
		if err != nil || ranks < 1 {
			return fmt.Errorf("-ranks: %q is no size of a group", text)
		}
		if err := measure(ctx, out, ranks, *perHost, *runs); err != nil {
			return fmt.Errorf("%d ranks: %w", ranks, err)
		}
	}
	_, _ = fmt.Fprint(out, "\nEach rank asks for the addresses of each other one, so requests grow with the square of the ranks; these are answered on the rank's own host.\n"+
		"Between hosts goes each rank's entry once to every host, and entries that come together go together: messages grow with the hosts, bytes with\n"+
		"ranks times hosts times the size of an entry, which has 8 bytes for each rank.\n")
	return nil
}

// once is the size above which a single run must do, because it takes minutes on few cores.
const once = 256

// measure prints one line of the table.
func measure(ctx context.Context, out io.Writer, ranks, perHost, runs int) error {
	if ranks > once {
		runs = 1
	}
	var took []time.Duration
	var requests, messages, size []int64
	for run := range runs {
		s, err := start(ranks, perHost)
		if err != nil {
			return err
		}
		begun := time.Now()
		err = s.form(ctx)
		took = append(took, time.Since(begun))
		s.close()
		if err != nil {
			return err
		}
		requests, messages, size = append(requests, s.requests.Load()), append(messages, s.messages.Load()), append(size, s.bytes.Load())
		fmt.Fprintf(os.Stderr, "%d ranks, run %d: %.3f s\n", ranks, run+1, took[run].Seconds())
	}
	_, err := fmt.Fprintf(out, "| %d | %.3f [%.3f, %.3f] | %d | %d | %.1f |\n", ranks, median(took).Seconds(), slices.Min(took).Seconds(),
		slices.Max(took).Seconds(), median(requests), median(messages), float64(median(size))/1e6)
	return err
}

func median[T ~int64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
