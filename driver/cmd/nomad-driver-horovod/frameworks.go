// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/framework/horovod"
	horovodtask "github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	"github.com/kolo-nomad/kolo/driver/framework/torch"
	torchtask "github.com/kolo-nomad/kolo/driver/framework/torch/taskdriver"
	"github.com/kolo-nomad/kolo/driver/launcher"
	"github.com/kolo-nomad/kolo/driver/plugin"
)

// training holds the parts of a training framework that the subcommands need.
type training struct {
	// name is the name of the task driver.
	name  string
	agent framework.Framework
	task  func(hclog.Logger) plugin.Framework
	flags launcher.Dialect // of `run`
}

// frameworks are the training frameworks that the program supports. The first is
// the default, for a program whose name selects none.
var frameworks = []training{
	{
		name:  "horovod",
		agent: horovod.Agent(),
		task:  func(l hclog.Logger) plugin.Framework { return horovodtask.Horovod{Logger: l} },
		flags: launcher.Horovodrun,
	},
	{
		name:  "torch",
		agent: torch.Agent(),
		task:  func(l hclog.Logger) plugin.Framework { return torchtask.PyTorch{Logger: l} },
		flags: launcher.Torchrun,
	},
}

// program returns the program's name for this framework.
func (t training) program() string { return "nomad-driver-" + t.name }

// launcher returns the framework's part for `run`.
func (t training) launcher() launcher.Framework {
	return launcher.Framework{Framework: t.agent, Program: t.program(), Dialect: t.flags}
}

// pick returns the framework that the program's name selects.
func pick(program string) training {
	for _, t := range frameworks {
		if strings.HasPrefix(program, t.program()) {
			return t
		}
	}
	return frameworks[0]
}

// agents returns the frameworks' parts for an agent, by name; the agent's
// configuration selects one.
func agents() map[string]framework.Framework {
	all := map[string]framework.Framework{}
	for _, t := range frameworks {
		all[t.name] = t.agent
	}
	return all
}
