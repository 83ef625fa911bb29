// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/cli"

	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// noCommand is the result of package cli if no command was given.
const noCommand = 127

// run does the work of main and returns the exit code, so that tests can call it.
func run(args []string) int {
	ui := newUI(os.Stdin, os.Stdout, os.Stderr)
	all := commands(meta{UI: ui})
	if text := unknownCommand(args, all); text != "" && os.Getenv("COMP_LINE") == "" {
		ui.Error("kolo: " + text)
		return exitUsage
	}
	c := &cli.CLI{
		Name:         "kolo",
		Version:      buildinfo.Line("kolo"),
		Args:         args,
		Commands:     all,
		Autocomplete: true,
		HelpFunc:     cli.BasicHelpFunc("kolo"),
		HelpWriter:   os.Stdout,
		ErrorWriter:  os.Stderr,
	}
	code, err := c.Run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kolo: %v\n", err)
		return 1
	}
	if code == noCommand {
		return exitUsage
	}
	return code
}
