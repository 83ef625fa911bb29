// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// stallLimit is the longest time without a finished input. Go itself does not fail
// a target that hangs: when its fuzzing time is over, nothing has failed. The limit
// is far above the time of one input, so a busy machine does not look like a hang.
const stallLimit = 15 * time.Second

// fuzzing configures how targets run.
type fuzzing struct {
	dir   string        // of the module
	time  time.Duration // for each target
	stall time.Duration // longest time without a finished input; after that the input is reported as failing
}

// fuzzCheck runs every fuzz target of the packages, one after the other. It goes on
// after a failing target.
func fuzzCheck(ctx context.Context, w io.Writer, args []string) error {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	f := fuzzing{stall: stallLimit}
	flags.StringVar(&f.dir, "C", ".", "`directory` of the module")
	flags.DurationVar(&f.time, "time", 30*time.Second, "how long each target runs")
	match := flags.String("run", ".", "`regexp` that the names of targets have to match")
	if err := flags.Parse(args); err != nil {
		return err
	}
	re, err := regexp.Compile(*match)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	all, err := targets(ctx, f.dir, re, flags.Args())
	if err != nil {
		return err
	}
	// Some packages have no target. But if a whole module has none, or none has the
	// requested name, that is an error.
	if len(all) == 0 && (*match != "." || slices.Contains(flags.Args(), "./...")) {
		return fmt.Errorf("no fuzz target of %s matches %q", strings.Join(flags.Args(), " "), *match)
	}
	return f.all(ctx, w, all)
}

// all runs the targets, and reports the failed ones once more at the end.
func (f fuzzing) all(ctx context.Context, w io.Writer, all []target) error {
	_, _ = fmt.Fprintf(w, "%d fuzz targets of %s each, about %s with what is built for them\n",
		len(all), f.time, time.Duration(len(all))*(f.time+10*time.Second).Round(time.Second))
	var failed []string
	for i, t := range all {
		_, _ = fmt.Fprintf(w, "[%d/%d] %s %s ... ", i+1, len(all), t.pkg, t.name)
		start := time.Now()
		run, err := f.one(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			_, _ = fmt.Fprintf(w, "FAILED: %v\n%s", err, explain(t, run.output))
			failed = append(failed, t.name+" of "+t.pkg)
			continue
		}
		_, _ = fmt.Fprintf(w, "ok: %d inputs in %s%s\n", run.inputs, time.Since(start).Round(time.Second), run.note)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d targets failed: %s", len(failed), len(all), strings.Join(failed, ", "))
	}
	return nil
}

// one runs a target. An error states what is wrong with the target, or with the
// code under test.
func (f fuzzing) one(ctx context.Context, t target) (fuzzRun, error) {
	// With one worker process, a hanging input shows, because no other input is
	// counted. Shrinking an input stops the count as well, so it gets little time.
	cmd := command(ctx, f.dir, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", f.time.String(),
		"-fuzzminimizetime", "2s", "-parallel", "1", t.pkg)
	progress := newProgress()
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Start(); err != nil {
		return fuzzRun{}, err
	}
	watched := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(watched)
		progress.watch(done, f.stall, func() { abortWorkers(cmd.Process.Pid) })
	}()
	err := cmd.Wait()
	close(done)
	<-watched
	return progress.result(err, f.stall)
}

var writtenTo = regexp.MustCompile(`Failing input written to (\S+)`)

// explain shows the output of a failed target, the failing input, and what to do
// with it.
func explain(t target, output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		b.WriteString("    " + line)
	}
	m := writtenTo.FindStringSubmatch(output)
	if m == nil {
		return b.String()
	}
	file := filepath.Join(t.dir, m[1])
	text, err := readHead(file, 2048)
	if err != nil {
		text = err.Error()
	}
	fmt.Fprintf(&b, "    %s:\n", file)
	for line := range strings.Lines(text) {
		b.WriteString("        " + line)
	}
	fmt.Fprintf(&b, "\n    To see it fail again: go test -run '^%s$/^%s$' %s\n", t.name, filepath.Base(m[1]), t.pkg)
	b.WriteString("    Correct the code and commit the file with it: go test then runs this input every time.\n")
	return b.String()
}

var errNothing = errors.New("it ran no input")
