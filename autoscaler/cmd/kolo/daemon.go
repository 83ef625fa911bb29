// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import "github.com/hashicorp/cli"

// daemonCommands are the agent and the commands that ask a running one.
func daemonCommands(m meta) map[string]cli.CommandFactory {
	return map[string]cli.CommandFactory{
		"agent":      func() (cli.Command, error) { return &agentCommand{m}, nil },
		"job":        func() (cli.Command, error) { return &jobCommand{remote{meta: m}}, nil },
		"pause":      func() (cli.Command, error) { return &pauseCommand{remote: remote{meta: m}}, nil },
		"plan":       func() (cli.Command, error) { return &planCommand{remote{meta: m}}, nil },
		"policy get": func() (cli.Command, error) { return &policyGetCommand{remote{meta: m}}, nil },
		"policy set": func() (cli.Command, error) { return &policySetCommand{remote{meta: m}}, nil },
		"record":     func() (cli.Command, error) { return &recordCommand{remote{meta: m}}, nil },
		"resume":     func() (cli.Command, error) { return &pauseCommand{remote: remote{meta: m}, resume: true}, nil },
		"status":     func() (cli.Command, error) { return &statusCommand{remote{meta: m}}, nil },
	}
}
