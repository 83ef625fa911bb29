// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/text/suggest"
)

// meta is the common part of all commands.
type meta struct {
	UI    cli.Ui
	begin func() (context.Context, context.CancelFunc) // see interruptible
}

// commands returns a factory for each command, by the words that a user types.
func commands(m meta) map[string]cli.CommandFactory {
	api := apiCommand{meta: m}
	return map[string]cli.CommandFactory{
		"job lint":        func() (cli.Command, error) { return &jobLintCommand{m}, nil },
		"agent":           func() (cli.Command, error) { return &agentCommand{m}, nil },
		"eff":             func() (cli.Command, error) { return &effCommand{api}, nil },
		"events":          func() (cli.Command, error) { return &eventsCommand{apiCommand: api}, nil },
		"history":         func() (cli.Command, error) { return &historyCommand{api}, nil },
		"job":             func() (cli.Command, error) { return &jobCommand{api}, nil },
		"logs":            func() (cli.Command, error) { return &logsCommand{apiCommand: api}, nil },
		"mcp":             func() (cli.Command, error) { return &mcpCommand{api}, nil },
		"pause":           func() (cli.Command, error) { return &pauseCommand{apiCommand: api}, nil },
		"plan":            func() (cli.Command, error) { return &planCommand{api}, nil },
		"policy explain":  func() (cli.Command, error) { return &policyExplainCommand{meta: m}, nil },
		"policy get":      func() (cli.Command, error) { return &policyGetCommand{api}, nil },
		"policy list":     func() (cli.Command, error) { return &policyListCommand{meta: m}, nil },
		"policy set":      func() (cli.Command, error) { return &policySetCommand{api}, nil },
		"policy":          func() (cli.Command, error) { return &policyCommand{m}, nil },
		"queue":           func() (cli.Command, error) { return &queueCommand{api}, nil },
		"record":          func() (cli.Command, error) { return &recordCommand{api}, nil },
		"replay":          func() (cli.Command, error) { return &replayCommand{meta: m}, nil },
		"resume":          func() (cli.Command, error) { return &pauseCommand{apiCommand: api, resume: true}, nil },
		"simulate":        func() (cli.Command, error) { return &simulateCommand{meta: m}, nil },
		"stacks":          func() (cli.Command, error) { return &stacksCommand{apiCommand: api}, nil },
		"status":          func() (cli.Command, error) { return &statusCommand{api}, nil },
		"topology":        func() (cli.Command, error) { return &topologyCommand{api}, nil },
		"topology expand": func() (cli.Command, error) { return &topologyExpandCommand{meta: m, out: os.Stdout}, nil },
		"topology vars":   func() (cli.Command, error) { return &topologyVarsCommand{apiCommand: api, out: os.Stdout}, nil },
		"top":             func() (cli.Command, error) { return &topCommand{api}, nil },
		"usage":           func() (cli.Command, error) { return &usageCommand{api}, nil },
		"wait":            func() (cli.Command, error) { return &waitCommand{apiCommand: api}, nil },
		"version":         func() (cli.Command, error) { return &versionCommand{meta: m}, nil },
	}
}

func newUI(in io.Reader, out, errOut io.Writer) cli.Ui {
	return &cli.BasicUi{Reader: in, Writer: out, ErrorWriter: errOut}
}

// flags returns a flag set that leaves error reports to the command.
func (m meta) flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// AutocompleteArgs implements cli.CommandAutocomplete for commands without
// arguments.
func (m meta) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

// policyCommand is the first word of other commands. It prints their names.
type policyCommand struct{ meta }

// Synopsis implements cli.Command.
func (c *policyCommand) Synopsis() string { return "Show and choose scheduling policies" }

// Help implements cli.Command.
func (c *policyCommand) Help() string { return "Usage: kolo policy <subcommand> [options]" }

// Run implements cli.Command.
func (c *policyCommand) Run(args []string) int {
	next := words(commands(c.meta), "policy ")
	if len(args) == 0 {
		c.UI.Error("which? write kolo policy followed by one of " + strings.Join(next, ", "))
	} else {
		c.UI.Error(fmt.Sprintf("unknown command %q%s\nFor the whole help: kolo policy -help", "policy "+args[0], suggest.Hint("policy ", args[0], next)))
	}
	return exitUsage
}
