// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Kolo-worker runs elastic training as the program of a Nomad task: the entry point of
// a container image, or the command of an exec or raw_exec task. See package
// entrypoint.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/buildinfo"
	"github.com/kolo-nomad/kolo/driver/entrypoint"
	"github.com/kolo-nomad/kolo/driver/framework/horovod"
	horovodtask "github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	"github.com/kolo-nomad/kolo/driver/framework/torch"
	torchtask "github.com/kolo-nomad/kolo/driver/framework/torch/taskdriver"
)

// frameworks are the training frameworks that the program supports.
var frameworks = []entrypoint.Framework{
	{Task: torchtask.PyTorch{}, Agent: torch.Agent()},
	{Task: horovodtask.Horovod{}, Agent: horovod.Agent()},
}

func main() {
	if len(os.Args) == 2 && slices.Contains([]string{"version", "-version", "--version"}, os.Args[1]) {
		fmt.Println(buildinfo.Line("kolo-worker"))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == inspect.Subcommand {
		os.Exit(inspect.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(entrypoint.Main(context.Background(), frameworks, os.Args[1:], os.Stdout, os.Stderr))
}
