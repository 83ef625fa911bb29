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

// training is a training framework in the parts that the subcommands need.
type training struct {
	// name is that of the task driver.
	name  string
	agent framework.Framework
	task  func(hclog.Logger) plugin.Framework
	flags launcher.Dialect // of `run`
}

// frameworks are all that the program trains with. The first is that of a program
// whose name names none.
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

// program is the name that the program has for this framework.
func (t training) program() string { return "nomad-driver-" + t.name }

// launcher is the framework as `run` needs it.
func (t training) launcher() launcher.Framework {
	return launcher.Framework{Framework: t.agent, Program: t.program(), Dialect: t.flags}
}

// pick returns the framework that the name of the program selects.
func pick(program string) training {
	for _, t := range frameworks {
		if strings.HasPrefix(program, t.program()) {
			return t
		}
	}
	return frameworks[0]
}

// agents are the frameworks as an agent needs them: its configuration selects one.
func agents() map[string]framework.Framework {
	all := map[string]framework.Framework{}
	for _, t := range frameworks {
		all[t.name] = t.agent
	}
	return all
}
