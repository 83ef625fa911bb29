// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"flag"
	"io"
	"maps"

	"github.com/hashicorp/cli"
)

// meta is what every command is given.
type meta struct {
	UI cli.Ui
}

// commands returns a factory for each command, by the words a user types.
func commands(m meta) map[string]cli.CommandFactory {
	all := map[string]cli.CommandFactory{
		"policy":         func() (cli.Command, error) { return &groupCommand{name: "policy"}, nil },
		"policy explain": func() (cli.Command, error) { return &policyExplainCommand{meta: m}, nil },
		"policy list":    func() (cli.Command, error) { return &policyListCommand{meta: m}, nil },
		"simulate":       func() (cli.Command, error) { return &simulateCommand{meta: m}, nil },
		"version":        func() (cli.Command, error) { return &versionCommand{meta: m}, nil },
	}
	maps.Copy(all, daemonCommands(m))
	return all
}

func newUI(in io.Reader, out, errOut io.Writer) cli.Ui {
	return &cli.BasicUi{Reader: in, Writer: out, ErrorWriter: errOut}
}

// flags returns a flag set that leaves reporting of errors to the command.
func (m meta) flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// groupCommand stands for a word that only other words follow; it shows what
// they are.
type groupCommand struct{ name string }

// Synopsis implements cli.Command.
func (c *groupCommand) Synopsis() string {
	return map[string]string{"policy": "Know and choose scheduling policies"}[c.name]
}

// Help implements cli.Command.
func (c *groupCommand) Help() string {
	return "Usage: kolo " + c.name + " <subcommand> [options]"
}

// Run implements cli.Command.
func (c *groupCommand) Run([]string) int { return cli.RunResultHelp }
