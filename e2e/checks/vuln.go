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
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

const vulnDatabase = "https://vuln.go.dev"

// accepted are vulnerabilities that govulncheck reports but that cannot be
// exploited here, with the reason. Remove an entry that it no longer reports.
var accepted = map[string]string{
	"GO-2026-4883": "docker's daemon, of which nothing is built in: Nomad's package of capabilities imports data types of the same module",
	"GO-2026-4887": "docker's daemon, as GO-2026-4883",
	"GO-2026-6238": "BTF that an attacker writes: the executor's only comes from the running kernel",
}

// vulnCheck runs govulncheck. If the public database is out of reach, it reports so
// and succeeds, since not everyone who builds Kolo has a network. A database given
// by name must be reachable.
func vulnCheck(ctx context.Context, w io.Writer, args []string) error {
	flags := flag.NewFlagSet("vuln", flag.ContinueOnError)
	v := scan{accepted: accepted}
	flags.StringVar(&v.dir, "C", ".", "`directory` of the module")
	flags.StringVar(&v.tool, "govulncheck", "govulncheck", "the `program`")
	flags.StringVar(&v.db, "db", "", "`URL` of the database, which then has to be reached; else "+vulnDatabase)
	flags.StringVar(&v.tags, "tags", "", "build `tags`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	v.patterns = flags.Args()
	named := v.db != ""
	if !named {
		v.db = vulnDatabase
	}
	if err := reach(ctx, v.db); err != nil && (named || ctx.Err() != nil) {
		return fmt.Errorf("database %s cannot be reached: %w", v.db, err)
	} else if err != nil {
		_, _ = fmt.Fprintf(w, "govulncheck: skipped: database %s cannot be reached: %v\n", v.db, err)
		return nil
	}
	return v.run(ctx, w)
}

// scan is one run of govulncheck.
type scan struct {
	dir, tool, db, tags string
	patterns            []string
	accepted            map[string]string
}

// run reports each vulnerability that the module's code reaches, and fails if any
// of them is not accepted.
func (v scan) run(ctx context.Context, w io.Writer) error {
	cmd := command(ctx, v.dir, v.tool, append([]string{"-format", "json", "-db", v.db, "-tags", v.tags}, v.patterns...)...)
	var report bytes.Buffer
	cmd.Stdout, cmd.Stderr = &report, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", v.tool, err)
	}
	found, err := called(bytes.NewReader(report.Bytes()))
	if err != nil {
		return err
	}
	var open []string
	for _, id := range found {
		if reason, ok := v.accepted[id]; ok {
			_, _ = fmt.Fprintf(w, "govulncheck: %s is accepted: %s\n", id, reason)
			continue
		}
		open = append(open, id)
	}
	for _, id := range slices.Sorted(maps.Keys(v.accepted)) {
		if !slices.Contains(found, id) {
			_, _ = fmt.Fprintf(w, "govulncheck: %s is accepted, but no longer reported: remove it from e2e/checks/vuln.go\n", id)
		}
	}
	if len(open) == 0 {
		_, _ = fmt.Fprintf(w, "govulncheck: nothing else in %s is reached\n", v.db)
		return nil
	}
	return errors.Join(v.print(ctx, w, &report), fmt.Errorf(
		"reached: %s; raise the module that has it, or Go itself with the toolchain line of go.mod", strings.Join(open, ", ")))
}

// print makes govulncheck print a report as text.
func (v scan) print(ctx context.Context, w io.Writer, report io.Reader) error {
	cmd := command(ctx, v.dir, v.tool, "-mode", "convert")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = report, w, os.Stderr
	return ignoreExit(cmd.Run())
}

// called returns the vulnerabilities in functions that the code calls.
func called(report io.Reader) ([]string, error) {
	found := map[string]bool{}
	dec := json.NewDecoder(report)
	scanned := false
	for {
		var message struct {
			Config  *struct{}
			Finding *struct {
				OSV   string
				Trace []struct{ Function string }
			}
		}
		if err := dec.Decode(&message); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading govulncheck's report: %w", err)
		}
		scanned = scanned || message.Config != nil
		if f := message.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" {
			found[f.OSV] = true
		}
	}
	if !scanned {
		return nil, errors.New("govulncheck's report is empty")
	}
	return slices.Sorted(maps.Keys(found)), nil
}
