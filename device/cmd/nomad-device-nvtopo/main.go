// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command nomad-device-nvtopo is a Nomad device plugin for NVIDIA GPUs that
// knows how they are connected. Nomad starts it without arguments; people start
// it with a subcommand:
//
//	nomad-device-nvtopo topo [-json]   print the link matrix and the islands
//	nomad-device-nvtopo check          say what is wrong with this machine's set-up
//	nomad-device-nvtopo version        print the version
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/plugin"
)

// Environment variables for machines that have things in unusual places.
const (
	envLibrary = "KOLO_NVML_LIBRARY" // the file to load instead of libnvidia-ml.so.1
	envRoot    = "KOLO_HOST_ROOT"    // put before /sys, /proc, /dev and /etc
)

const usage = `Usage: nomad-device-nvtopo [topo [-json] | check | version]

Without arguments this is a plugin that Nomad starts. See docs/device.md.
`

// commandLimit is how long a call to the driver may take in a subcommand.
const commandLimit = 15 * time.Second

func main() {
	if len(os.Args) == 1 {
		serve()
		return
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// serve is the plugin. The import of Nomad's plugins/device alone, rather than
// of its parent, keeps the task driver's packages out of the binary.
func serve() {
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, JSONFormat: true})
	lib, root := library()
	device.Serve(plugin.New(log, plugin.Options{
		NVML:  lib,
		Stale: lib.Replaced,
		Root:  root,
		Restart: func(why string) {
			log.Warn("ending, for Nomad to start the plugin anew", "reason", why)
			os.Exit(1)
		},
	}), log)
}

func library() (lib *nvml.Real, root string) {
	root = os.Getenv(envRoot)
	return nvml.New(nvml.Options{Library: os.Getenv(envLibrary), Root: root}), root
}

func command(args []string, out, errs io.Writer) int {
	var err error
	switch args[0] {
	case "topo":
		err = topo(args[1:], out, errs)
	case "check":
		return check(out)
	case "version", "-version", "--version":
		_, err = fmt.Fprintln(out, plugin.Name, plugin.Version)
	default:
		_, _ = fmt.Fprint(errs, usage)
		return 2
	}
	if err != nil {
		_, _ = fmt.Fprintf(errs, "%s %s: %v\n", plugin.Name, args[0], err)
		return 1
	}
	return 0
}

func topo(args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("topo", flag.ContinueOnError)
	flags.SetOutput(errs)
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	lib, _ := library()
	report, err := plugin.Inspect(nvml.Guard(lib, commandLimit))
	if err != nil {
		return err
	}
	if !*asJSON {
		return report.Write(out)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

// check returns 1 when there is a problem.
func check(out io.Writer) int {
	beside := ""
	if self, err := os.Executable(); err == nil {
		beside = filepath.Dir(self)
	}
	lib, root := library()
	status := 0
	found := plugin.Check(nvml.Guard(lib, commandLimit), root, beside)
	for _, f := range found {
		kind := "note"
		if f.Problem {
			kind, status = "problem", 1
		}
		_, _ = fmt.Fprintf(out, "%-8s %s\n         %s\n", kind, f.What, f.Do)
	}
	if status == 0 {
		_, _ = fmt.Fprintln(out, "ok       GPUs can be used")
	}
	return status
}
