// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/layout"
	"github.com/kolo-nomad/kolo/release/manpage"
)

// Each command in the help has a section, including subcommands. Options that many commands
// share are listed once.
func TestCommands(t *testing.T) {
	const general = "General Options:\n\n  -address=<addr>\n    URL.\n"
	helps := map[string]string{
		"-help":            "Usage: kolo <command>\n\nAvailable commands are:\n    policy    Know policies\n    status    Show jobs\n",
		"policy -help":     "Usage: kolo policy <subcommand>\n\nSubcommands:\n    set    Change it\n",
		"policy set -help": "Usage: kolo policy set\n\n" + general,
		"status -help":     "Usage: kolo status\n\n" + general + "\nSubcommands:\n    all    Of all\n",
		"status all -help": "Usage: kolo status all\n",
	}
	help := func(args ...string) (string, error) { return helps[strings.Join(args, " ")], nil }
	parts, err := commands("kolo", help)
	must.NoError(t, err)
	const instead = "  General options, which are below, apply.\n"
	must.Eq(t, []manpage.Part{
		{Heading: "commands", Help: helps["-help"]},
		{Heading: "kolo policy", Help: helps["policy -help"]},
		{Heading: "kolo policy set", Help: "Usage: kolo policy set\n\n" + instead},
		{Heading: "kolo status", Help: "Usage: kolo status\n\n" + instead + "\nSubcommands:\n    all    Of all\n"},
		{Heading: "kolo status all", Help: helps["status all -help"]},
		{Heading: "general options", Help: "\n  -address=<addr>\n    URL.\n"},
	}, parts)

	helps["status -help"] = "Usage: kolo status\n\n" + general + "\n  -more\n    More.\n"
	_, err = commands("kolo", help)
	must.ErrorContains(t, err, "the general options of kolo status are not those of the commands before it")
}

// A release refuses a program that needs a newer glibc than its package depends on.
func TestCheckGlibc(t *testing.T) {
	body, err := os.ReadFile("/bin/sh")
	must.NoError(t, err)
	b := binary{program: layout.Program{Name: "sh", Cgo: true}, on: layout.Linux[0], body: body}
	must.NoError(t, b.checkGlibc("99.0"))
	must.ErrorContains(t, b.checkGlibc("2.0"), "sh for linux_amd64 needs glibc 2.")
	b.program.Cgo = false
	must.NoError(t, b.checkGlibc("2.0"))
}

func TestRoots(t *testing.T) {
	must.Greater(t, 100, strings.Count(string(roots()), "BEGIN CERTIFICATE"))
}
