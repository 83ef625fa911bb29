// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the options of the command line.
type options struct {
	rounds int
	parts  []part
	out    string
	raw    string
	add    bool
	root   string
	// launchers are the names of the launchers to measure, all if empty.
	launchers string
	// stateMB are the state sizes in MiB for the parts that measure them.
	stateMB []int
	// seed, steps and every are for whole runs: the seed of the events, the steps of a run, and
	// the mean times between events.
	seed  uint64
	steps int
	every []time.Duration
	// keep saves the results so far, because a round takes minutes.
	keep func() error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && peers[os.Args[1]] != nil {
		if err := runPeer(ctx, peers[os.Args[1]], os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	results, err := load(o.raw)
	if err != nil {
		return err
	}
	if len(o.parts) > 0 {
		if err := measure(ctx, o, results); err != nil {
			return err
		}
	}
	if o.out == "-" {
		_, err = os.Stdout.Write(results.page(nil))
		return err
	}
	old, err := os.ReadFile(o.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	progress("writing %s", o.out)
	if results.Run != nil && len(results.Run.By) > 0 {
		if err := os.WriteFile(filepath.Join(filepath.Dir(o.out), runPicture), results.Run.picture(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(o.out, results.page(old), 0o644)
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "measurements of each kind")
	flags.StringVar(&o.out, "o", "-", "file for the report, - for the terminal")
	flags.StringVar(&o.raw, "raw", "", "file that keeps the results, so that parts can be measured one by one")
	flags.BoolVar(&o.add, "add", false, "add to the results in -raw instead of replacing them, to measure in several sittings")
	flags.StringVar(&o.launchers, "launchers", "", "only these, such as kolo; for whole runs by their full names, separated by ;")
	sizes := flags.String("state", "10,100,1000", "sizes of the state in MiB, for the parts about it")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the events in whole runs")
	flags.IntVar(&o.steps, "steps", 2500, "steps of a whole run, of 0.1 s each; a run without events has a fifth of them")
	every := flags.String("every", "1m,5m,0", "mean times between the events of whole runs; 0 for no events")
	which := flags.String("parts", "horovod,torch", "what to measure: all of a framework, or some of "+strings.Join(partNames(), ", ")+"; nothing only writes the report of -raw")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.parts, err = pickParts(*which); err != nil {
		return nil, fmt.Errorf("-parts: %w", err)
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		mb, err := strconv.Atoi(text)
		if err != nil || mb < 2 {
			return nil, fmt.Errorf("-state: %q: at least 2 MiB", text)
		}
		o.stateMB = append(o.stateMB, mb)
	}
	for text := range strings.SplitSeq(*every, ",") {
		mean, err := time.ParseDuration(text)
		if err != nil || mean < 0 {
			return nil, fmt.Errorf("-every: %q is no duration, such as 1m", text)
		}
		o.every = append(o.every, mean)
	}
	if o.steps < 10 {
		return nil, errors.New("-steps: at least 10")
	}
	if o.rounds < 1 {
		return nil, errors.New("-rounds: at least 1")
	}
	if o.root, err = os.Getwd(); err != nil {
		return nil, err
	}
	for _, p := range o.parts {
		if err := p.framework.Check(o.root); err != nil {
			return nil, fmt.Errorf("%w (run `make bench` in the project's root)", err)
		}
	}
	return o, nil
}

func measure(ctx context.Context, o *options, results *Results) error {
	for _, p := range o.parts {
		if err := results.describe(ctx, o, p); err != nil {
			return err
		}
		if !o.add {
			p.forget(results)
		}
	}
	o.keep = func() error {
		if o.raw == "" {
			return nil
		}
		return results.save(o.raw)
	}
	if !o.has(torchft) {
		progress("torchft is left out: there is no %s (make torchft)", torchft.needs)
	}
	for _, p := range o.parts {
		progress("== %s", p.name)
		if err := p.measure(ctx, o, results); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := o.keep(); err != nil {
			return err
		}
	}
	return nil
}

// load reads earlier results; it returns none if there is no file.
func load(path string) (*Results, error) {
	results := &Results{About: map[string]About{}}
	if path == "" {
		return results, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	return results, json.Unmarshal(text, results)
}

func (r *Results) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// progress prints what is being done, with the time.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
