// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line's.
type options struct {
	rounds int
	parts  []string
	out    string
	raw    string
	add    bool
	root   string
	// launchers are those to measure.
	launchers []launcher
	// keep saves what has been measured so far: a round takes minutes.
	keep func() error
}

// parts are what can be measured, in the order of the report.
var parts = []string{"resize", "slow", "recovery", "cost", "rendezvous"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
	var report bytes.Buffer
	results.write(&report)
	if o.out == "-" {
		_, err = os.Stdout.Write(report.Bytes())
		return err
	}
	if page, err := os.ReadFile(o.out); err == nil {
		if i := bytes.Index(page, []byte(kept)); i >= 0 {
			report.Write(page[i:])
		}
	}
	progress("writing %s", o.out)
	return os.WriteFile(o.out, report.Bytes(), 0o644)
}

// kept begins the part of the page that other programs measure and write.
const kept = "\n<!-- not written by make bench, which keeps what follows -->\n"

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "measurements of each kind")
	flags.StringVar(&o.out, "o", "-", "file for the report, - for the terminal")
	flags.StringVar(&o.raw, "raw", "", "file that keeps the results, so that parts can be measured one by one")
	flags.BoolVar(&o.add, "add", false, "add to the results in -raw instead of replacing them, to measure in several sittings")
	whom := flags.String("launchers", "horovodrun,kolo", "what to measure it with")
	which := flags.String("parts", strings.Join(parts, ","), "what to measure; nothing only writes the report of -raw")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *which != "" {
		o.parts = strings.Split(*which, ",")
	}
	for _, p := range o.parts {
		if !slices.Contains(parts, p) {
			return nil, fmt.Errorf("-parts: %q is none of %s", p, strings.Join(parts, ", "))
		}
	}
	for name := range strings.SplitSeq(*whom, ",") {
		i := slices.IndexFunc(launchers, func(l launcher) bool { return strings.EqualFold(l.Name, name) })
		if i < 0 {
			return nil, fmt.Errorf("-launchers: %q is neither horovodrun nor kolo", name)
		}
		o.launchers = append(o.launchers, launchers[i])
	}
	if o.rounds < 1 {
		return nil, errors.New("-rounds: at least 1")
	}
	var err error
	if o.root, err = os.Getwd(); err != nil {
		return nil, err
	}
	for _, needed := range []string{"bin/nomad-driver-horovod", ".venv/bin/horovodrun", "e2e/train/train.py"} {
		if _, err := os.Stat(filepath.Join(o.root, needed)); err != nil {
			return nil, fmt.Errorf("%w (run `make bench` in the project's root)", err)
		}
	}
	return o, nil
}

func measure(ctx context.Context, o *options, results *Results) error {
	results.Date = time.Now().UTC().Format("2006-01-02")
	if err := results.describeMachine(ctx, o); err != nil {
		return err
	}
	if !o.add {
		results.forget(o.parts)
	}
	o.keep = func() error {
		if o.raw == "" {
			return nil
		}
		return results.save(o.raw)
	}
	for _, part := range o.parts {
		progress("== %s", part)
		var err error
		switch part {
		case "resize":
			err = measureResizes(ctx, o, &results.Resize, 0)
		case "slow":
			err = measureResizes(ctx, o, &results.Slow, slowImport)
		case "recovery":
			err = measureRecovery(ctx, o, &results.Recovery)
		case "cost":
			err = measureCost(ctx, o, &results.Cost)
		case "rendezvous":
			results.Rendezvous, err = measureRendezvous(ctx, o)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		if err := o.keep(); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what is to be measured again.
func (r *Results) forget(parts []string) {
	for _, part := range parts {
		switch part {
		case "resize":
			r.Resize = nil
		case "slow":
			r.Slow = nil
		case "recovery":
			r.Recovery = nil
		case "cost":
			r.Cost = nil
		case "rendezvous":
			r.Rendezvous = ""
		}
	}
}

// load reads earlier results; no file means none.
func load(path string) (*Results, error) {
	results := &Results{}
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

// progress prints what is being done, and when.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
