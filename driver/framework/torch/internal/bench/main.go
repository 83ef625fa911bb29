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
// Each rank sends the requests that Gloo or NCCL sends to form one process group. With
// Gloo, it stores its own entry, waits for the entries of all other ranks, and reads them,
// in one of several ways. The ranks do not connect to each other. Everything, including
// agents and leader, runs in one process. Unlike the elapsed time, its processor time
// hardly depends on other load.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	only := flags.String("way", "", "measure only the way whose name begins so")
	profile := flags.String("cpuprofile", "", "write a CPU profile to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *perHost < 1 || *runs < 1 {
		return errors.New("-slots and -runs must be at least 1")
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	_, _ = fmt.Fprintf(out, "One group, %d slots per host, all in one process on this machine; median of %d runs (of more than %d ranks: one) [fastest, slowest].\n\n"+
		"| ranks | entries are read | seconds | processor seconds | requests of ranks | messages of agents and leader | MB in them |\n|---|---|---|---|---|---|---|\n", *perHost, *runs, once)
	for text := range strings.SplitSeq(*list, ",") {
		ranks, err := strconv.Atoi(text)
		if err != nil || ranks < 1 {
			return fmt.Errorf("-ranks: %q is no size of a group", text)
		}
		for _, w := range ways {
			if !strings.HasPrefix(w.name, *only) {
				continue
			}
			if err := measure(ctx, out, w, ranks, *perHost, *runs); err != nil {
				return fmt.Errorf("%d ranks, %s: %w", ranks, w.name, err)
			}
		}
	}
	_, _ = fmt.Fprint(out, "\nGloo's ranks read the entries of all others, each from its own host. One by one, requests grow with the square of the ranks. Agents set\n"+
		"GLOO_ENABLE_STORE_V2_API=1, with which newer releases of PyTorch read 128 entries at once. An entry has 8 bytes for each rank, or none\n"+
		"(short) with GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER=1. Between hosts goes each rank's entry once to every host, and entries that come together\n"+
		"go together: messages grow with the hosts, bytes with ranks times hosts times the size of an entry. NCCL's ranks read one id, that of rank 0.\n")
	return nil
}

// way is how the ranks of a group read each other's entries.
type way struct {
	name    string
	keys    int // entries read at once; 0 if all ranks read only the entry of rank 0
	perRank int // bytes of an entry for each rank of the group
}

var ways = []way{
	{"one by one", 1, 8},                   // Gloo without further settings
	{"128 at once", 128, 8},                // GLOO_ENABLE_STORE_V2_API=1
	{"128 at once, short entries", 128, 0}, // and GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER=1
	{"NCCL: one id", 0, 0},
}

// once is the size above which a single run must do, because it takes minutes on few cores.
const once = 256

// measure prints one line of the table.
func measure(ctx context.Context, out io.Writer, w way, ranks, perHost, runs int) error {
	if ranks > once {
		runs = 1
	}
	var took, used []time.Duration
	var requests, messages, size []int64
	for run := range runs {
		s, err := start(ranks, perHost)
		if err != nil {
			return err
		}
		begun, before := time.Now(), processorTime()
		err = s.form(ctx, w)
		took, used = append(took, time.Since(begun)), append(used, processorTime()-before)
		s.close()
		if err != nil {
			return err
		}
		requests, messages, size = append(requests, s.requests.Load()), append(messages, s.messages.Load()), append(size, s.bytes.Load())
		fmt.Fprintf(os.Stderr, "%d ranks, %s, run %d: %.3f s\n", ranks, w.name, run+1, took[run].Seconds())
	}
	_, err := fmt.Fprintf(out, "| %d | %s | %.3f [%.3f, %.3f] | %.3f | %d | %d | %.1f |\n", ranks, w.name, median(took).Seconds(), slices.Min(took).Seconds(),
		slices.Max(took).Seconds(), median(used).Seconds(), median(requests), median(messages), float64(median(size))/1e6)
	return err
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median[T ~int64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
