// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/cli"

	"github.com/kolo-nomad/kolo/autoscaler/text/suggest"
)

// exitUsage is the exit code of an invalid command line. Commands that fail later
// exit with 1.
const exitUsage = 2

// unknownCommand returns an error text if the command line starts with an unknown
// command, or else "".
func unknownCommand(args []string, all map[string]cli.CommandFactory) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	words := words(all, "")
	if slices.Contains(words, args[0]) {
		return ""
	}
	return fmt.Sprintf("unknown command %q%s\nFor all commands: kolo -help", args[0], suggest.Hint("", args[0], words))
}

// words returns the words that may follow a prefix in the names of commands.
func words(all map[string]cli.CommandFactory, after string) []string {
	next := map[string]bool{}
	for name := range all {
		if rest, ok := strings.CutPrefix(name, after); ok {
			if word, _, _ := strings.Cut(strings.TrimSpace(rest), " "); word != "" {
				next[word] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(next))
}

// flagError is the error of an invalid flag value.
type flagError string

func (w flagError) Error() string { return string(w) }

func badFlag(format string, args ...any) error { return flagError(fmt.Sprintf(format, args...)) }

// form returns how to write the value of a flag, if text reports a malformed value. Otherwise it
// returns "".
func form(text string, f *flag.FlagSet) string {
	_, after, wrong := strings.Cut(text, " for flag -")
	if !wrong || f == nil {
		return ""
	}
	name, _, _ := strings.Cut(after, ":")
	k := f.Lookup(name)
	if k == nil {
		return ""
	}
	value, typed := k.Value.(flag.Getter)
	if !typed {
		return ""
	}
	switch value.Get().(type) {
	case time.Duration:
		return "; write a number with its unit, such as 90s or 5m"
	case int, int64, uint, uint64:
		return "; write a whole number"
	case float64:
		return "; write a number"
	}
	return ""
}

// usage reports an invalid command line, or prints help if that was requested. f
// holds the flags of the command; it may be nil.
func (m meta) usage(err error, f *flag.FlagSet, help string) int {
	if errors.Is(err, flag.ErrHelp) {
		m.UI.Output(help)
		return 0
	}
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		var known []string
		f.VisitAll(func(k *flag.Flag) { known = append(known, k.Name) })
		text = fmt.Sprintf("unknown flag -%s%s", name, suggest.Hint("-", name, known))
	}
	m.UI.Error(text + form(text, f))
	usage, _, _ := strings.Cut(strings.TrimSpace(help), "\n")
	if name, _, ok := strings.Cut(strings.TrimPrefix(usage, "Usage: "), " ["); ok {
		m.UI.Error(usage + "\nFor the whole help: " + name + " -help")
	}
	return exitUsage
}
