// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/cli"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main without the exit, so that tests can call it.
func run(args []string) int {
	ui := newUI(os.Stdin, os.Stdout, os.Stderr)
	c := &cli.CLI{
		Name:         "kolo",
		Version:      versionString(),
		Args:         args,
		Commands:     commands(meta{UI: ui}),
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
	return code
}
