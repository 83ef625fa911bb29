// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command nomad-device-nvtopo is a Nomad device plugin for NVIDIA GPUs that
// reports how they are connected. Nomad starts it without arguments; operators
// start it with a subcommand:
//
//	nomad-device-nvtopo topo [-json]   print the link matrix and the islands
//	nomad-device-nvtopo check          report what is wrong with this machine's set-up
//	nomad-device-nvtopo version        print the version
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/inspect"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/plugin"
	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

// Environment variables for machines with files in unusual places.
const (
	envLibrary = "KOLO_NVML_LIBRARY" // the file to load instead of libnvidia-ml.so.1
	envRoot    = "KOLO_HOST_ROOT"    // prepended to /sys, /proc, /dev and /etc
)

const usage = `Usage: nomad-device-nvtopo <command>

  topo [-json]   print the link matrix and the islands
  check          report what is wrong with this machine's set-up, and what to do
  version        print the version

The exit status is 1 when the machine has a problem, 2 when the command line has.
Without arguments this is a plugin that Nomad starts. See docs/reference/cli.md.
`

// commandLimit bounds a call to the driver in a subcommand.
const commandLimit = 15 * time.Second

func main() {
	if len(os.Args) == 1 {
		serve()
		return
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// serve runs the plugin. It imports only Nomad's plugins/device, and not its parent, to
// keep the task driver's packages out of the binary.
func serve() {
	// The work is sequential; with more processors the threads would mostly wake each
	// other.
	runtime.GOMAXPROCS(1)
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, JSONFormat: true})
	lib, root := library()
	device.Serve(plugin.New(log, plugin.Options{
		NVML:  lib,
		Stale: lib.Replaced,
		Root:  root,
		Restart: func(why string) {
			log.Warn("exiting, for Nomad to start the plugin again", "reason", why)
			os.Exit(1)
		},
	}), log)
}

func library() (lib *nvml.Real, root string) {
	root = os.Getenv(envRoot)
	return nvml.New(nvml.Options{Library: os.Getenv(envLibrary), Root: root}), root
}

// errUsage means that the command line is wrong.
var errUsage = errors.New("wrong usage")

// command runs one command and returns the exit status.
func command(args []string, out, errs io.Writer) int {
	name, rest := args[0], args[1:]
	if help := []string{"help", "-h", "-help", "--help"}; slices.Contains(help, name) {
		_, _ = fmt.Fprint(out, usage)
		return 0
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error is printed below
	run := func() error { return fmt.Errorf("%w: there is no such command", errUsage) }
	switch name {
	case "topo":
		asJSON := flags.Bool("json", false, "")
		run = func() error { return topo(out, *asJSON) }
	case "check":
		run = func() error { return check(out) }
	case "version", "-version", "--version":
		run = func() error {
			_, err := fmt.Fprintln(out, buildinfo.Line(plugin.Name))
			return err
		}
	default:
		rest = nil
	}
	err := flags.Parse(rest)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(out, usage)
		return 0
	case err != nil:
		err = fmt.Errorf("%w: %w", errUsage, err)
	case flags.NArg() > 0:
		err = fmt.Errorf("%w: unexpected %q", errUsage, flags.Arg(0))
	default:
		err = run()
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprintf(errs, "%s %s: %v\n\n%s", plugin.Name, name, err, usage)
		return 2
	case !errors.Is(err, errProblem): // the findings were printed already
		_, _ = fmt.Fprintf(errs, "%s %s: %v\n", plugin.Name, name, err)
	}
	return 1
}

func topo(out io.Writer, asJSON bool) error {
	lib, root := library()
	report, err := inspect.Topology(nvml.Guard(lib, commandLimit), root)
	if err != nil {
		return fmt.Errorf("%w (%s check reports what to do)", err, plugin.Name)
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = report.Write(out)
	}
	if err == nil && len(report.Unread) > 0 {
		err = errProblem
	}
	return err
}

// errProblem means that a command found a problem and has printed it.
var errProblem = errors.New("the machine has a problem")

func check(out io.Writer) error {
	pluginDir := ""
	if self, err := os.Executable(); err == nil {
		pluginDir = filepath.Dir(self)
	}
	lib, root := library()
	var result error
	for _, f := range inspect.Check(nvml.Guard(lib, commandLimit), root, pluginDir) {
		if f.Problem {
			result = errProblem
		}
		if _, err := fmt.Fprintln(out, f); err != nil {
			return err
		}
	}
	if result == nil {
		_, _ = fmt.Fprintln(out, "ok       GPUs can be used")
	}
	return result
}
