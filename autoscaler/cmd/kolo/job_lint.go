// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/job/lint"
)

// jobLintCommand checks job specifications before they are submitted.
type jobLintCommand struct{ meta }

// Synopsis implements cli.Command.
func (c *jobLintCommand) Synopsis() string {
	return "Find what keeps a job specification from training with Kolo"
}

// Help implements cli.Command.
func (c *jobLintCommand) Help() string {
	return strings.TrimSpace(`
Usage: kolo job lint [options] <file>...

  Reads job specifications (HCL) and lists what is missing or wrong for Kolo, with
  the line and what to write instead. No cluster is needed. A file named - is the
  standard input.

  Exits with 0 if there is no error, with 1 if there is one, and with 2 if a file
  can't be read. Warnings do not count as errors.

Options:

  -batch-queue=<pools>
    Comma-separated node pools that have a batch_queue (Nomad 2.1). Jobs that would
    block these queues are reported.

  -json
    Print the findings as a JSON array.

  -max-kill-timeout=<duration>
    The clients' max_kill_timeout. Default: 30s, which is Nomad's.

  -var=<name>=<value>
    Value of a variable; may be repeated.

  -var-file=<path>
    File with values of variables; may be repeated. The environment's NOMAD_VAR_…
    count as well.
`)
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (c *jobLintCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*.hcl") }

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *jobLintCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{
		"-batch-queue": complete.PredictAnything, "-json": complete.PredictNothing, "-max-kill-timeout": complete.PredictAnything,
		"-var": complete.PredictAnything, "-var-file": complete.PredictFiles("*"),
	}
}

// repeated is the value of a flag that may be given several times.
type repeated []string

func (r *repeated) String() string     { return strings.Join(*r, ",") }
func (r *repeated) Set(s string) error { *r = append(*r, s); return nil }

// maxJobText is longer than any real job.
const maxJobText = 2 << 20

// Run implements cli.Command.
func (c *jobLintCommand) Run(args []string) int {
	o := lint.Options{ReadFiles: true}
	var asJSON bool
	var queued string
	f := c.flags("job lint")
	f.StringVar(&queued, "batch-queue", "", "")
	f.BoolVar(&asJSON, "json", false, "")
	f.DurationVar(&o.MaxKillTimeout, "max-kill-timeout", lint.MaxKillTimeout, "")
	f.Var((*repeated)(&o.Vars), "var", "")
	f.Var((*repeated)(&o.VarFiles), "var-file", "")
	if err := parse(f, args, 1, 1000); err != nil {
		return c.usage(err, f, c.Help())
	}
	o.QueuedPools = strings.FieldsFunc(queued, func(r rune) bool { return r == ',' || r == ' ' })
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "NOMAD_VAR_") {
			o.Env = append(o.Env, v)
		}
	}
	findings := []lint.Finding{}
	for _, path := range f.Args() {
		found, err := lintFile(path, o)
		if err != nil {
			c.UI.Error(err.Error())
			return exitUsage
		}
		findings = append(findings, found...)
	}
	if asJSON {
		if code := c.printJSON(findings); code != 0 {
			return code
		}
	} else {
		for _, f := range findings {
			c.UI.Output(f.String())
		}
	}
	if slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Severity == lint.Error }) {
		return 1
	}
	return 0
}

func lintFile(path string, o lint.Options) ([]lint.Finding, error) {
	text, err := readJob(path)
	if err != nil {
		return nil, err
	}
	if o.Path, o.Text = path, text; path == "-" {
		o.Path = "stdin"
	}
	return bounded(o)
}

func readJob(path string) ([]byte, error) {
	in := os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxJobText)) // package lint refuses texts of this length
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// A job may compute anything, and HCL sets no bound: nested for expressions, or a text
// that is doubled again and again.
const (
	lintTime   = 30 * time.Second
	lintMemory = 1 << 30
)

// bounded checks a job within these limits. If the job exceeds them, the check is
// abandoned and not stopped, because HCL's functions cannot be stopped; this process is
// about to end.
func bounded(o lint.Options) ([]lint.Finding, error) {
	type result struct {
		findings []lint.Finding
		err      error
	}
	done := make(chan result, 1)
	go func() {
		findings, err := lint.Check(o)
		done <- result{findings, err}
	}()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(lintTime); ; {
		select {
		case r := <-done:
			return r.findings, r.err
		case now := <-look.C:
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			switch {
			case m.HeapAlloc > lintMemory:
				return nil, errors.New(o.Path + ": its expressions take more than 1 GiB of memory")
			case now.After(end):
				return nil, fmt.Errorf("%s: its expressions take longer than %s", o.Path, lintTime)
			}
		}
	}
}
