// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Nomad-driver-horovod runs elastic Horovod tasks on Nomad.
//
// Nomad starts it without arguments: it then serves the task driver (package
// plugin). The driver starts it again as the agent of each task, and Nomad's
// executor, which is linked in, as the supervisor of each agent.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins"

	"github.com/kolo-nomad/kolo/driver/agent"
	"github.com/kolo-nomad/kolo/driver/confine"
	"github.com/kolo-nomad/kolo/driver/horovod/taskdriver"
	"github.com/kolo-nomad/kolo/driver/launcher"
	"github.com/kolo-nomad/kolo/driver/plugin"
)

const usage = `nomad-driver-horovod runs elastic Horovod training as Nomad tasks.

usage:
  nomad-driver-horovod               serve the task driver; started by Nomad
  nomad-driver-horovod run [flags] -- <command> [arguments]
                                     train on this machine without Nomad, with
                                     horovodrun's elastic flags; run -help
  nomad-driver-horovod agent         supervise one task's training processes;
                                     started by the driver
  nomad-driver-horovod confine       drop privileges and run a command in a
                                     task's container; started by the driver
  nomad-driver-horovod version       print the version
  nomad-driver-horovod help          print this

To install it, copy it into the Nomad client's plugin_dir and add to the
client's configuration:

  plugin "nomad-driver-horovod" {
    config {
      # allow_isolation_none = true
    }
  }
`

// pluginCookie is set by Nomad when it starts a plugin.
const pluginCookie = "NOMAD_PLUGIN_MAGIC_COOKIE"

// The subcommand `executor` never comes here: Nomad's executor package takes it
// over before main.
func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		if os.Getenv(pluginCookie) == "" {
			_, _ = fmt.Fprint(stderr, usage)
			return 2
		}
		plugins.ServeCtx(func(ctx context.Context, logger hclog.Logger) any {
			return plugin.New(ctx, logger, taskdriver.Horovod{Logger: logger.Named("horovod")})
		})
		return 0
	}
	switch args[0] {
	case "agent":
		return agent.Main(context.Background(), args[1:])
	case confine.Subcommand:
		return confine.Main(args[1:])
	case "run":
		return launcher.Main(context.Background(), args[1:])
	case "version", "-version", "--version":
		_, _ = fmt.Fprintf(stdout, "nomad-driver-horovod %s (%s, %s/%s)\n", plugin.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	case "help", "-help", "--help", "-h":
		_, _ = fmt.Fprint(stdout, usage)
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "nomad-driver-horovod: no command %q\n\n%s", args[0], usage)
	return 2
}
