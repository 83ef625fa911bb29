// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Nomad-driver-horovod runs elastic training tasks on Nomad. The name under which
// it is started selects the training framework.
//
// Nomad starts it without arguments, and it serves the task driver (package
// plugin). The driver starts the same program as the agent of each task, and as the
// supervisor of each agent. The supervisor is Nomad's executor, which is linked
// into the program.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins"

	"github.com/kolo-nomad/kolo/driver/agent"
	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/buildinfo"
	"github.com/kolo-nomad/kolo/driver/launcher"
	"github.com/kolo-nomad/kolo/driver/plugin"
	"github.com/kolo-nomad/kolo/driver/sandbox/confine"
)

const usage = `PROGRAM runs elastic FRAMEWORK training as Nomad tasks.

usage:
  PROGRAM                serve the task driver; started by Nomad
  PROGRAM run [flags] -- <command> [arguments]
                         train on this machine without Nomad; run -help
  PROGRAM agent          supervise one task's training processes; started by
                         the driver
  PROGRAM confine        drop privileges and run a command in a task's
                         container; started by the driver
  PROGRAM stacks <dir>   print the stacks of a task's training processes;
                         started by kolo stacks
  PROGRAM version        print the version
  PROGRAM help           print this

To install it, copy it into the Nomad client's plugin_dir and add to the
client's configuration:

  plugin "PROGRAM" {
    config {
      # allow_isolation_none = true
    }
  }
`

// pluginCookie is set by Nomad when it starts a plugin.
const pluginCookie = "NOMAD_PLUGIN_MAGIC_COOKIE"

// The subcommand `executor` never gets here: Nomad's executor package handles it
// before main.
func main() {
	os.Exit(run(filepath.Base(os.Args[0]), os.Args[1:], os.Stdout, os.Stderr))
}

func run(program string, args []string, stdout, stderr io.Writer) int {
	picked := pick(program)
	help := strings.NewReplacer("PROGRAM", picked.program(), "FRAMEWORK", picked.agent.Elastic.Name).Replace(usage)
	if len(args) == 0 {
		if os.Getenv(pluginCookie) == "" {
			_, _ = fmt.Fprint(stderr, help)
			return 2
		}
		plugins.ServeCtx(func(ctx context.Context, logger hclog.Logger) any {
			return plugin.New(ctx, logger, picked.task(logger.Named(picked.name)))
		})
		return 0
	}
	switch args[0] {
	case "agent":
		return agent.Main(context.Background(), agents())
	case inspect.Subcommand:
		return inspect.Main(context.Background(), args[1:], stdout, stderr)
	case confine.Subcommand:
		return confine.Main(args[1:])
	case "run":
		return launcher.Main(context.Background(), picked.launcher(), args[1:])
	case "version", "-version", "--version":
		_, _ = fmt.Fprintln(stdout, buildinfo.Line(picked.program()))
		return 0
	case "help", "-help", "--help", "-h":
		_, _ = fmt.Fprint(stdout, help)
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "%s: no command %q\n\n%s", picked.program(), args[0], help)
	return 2
}
