// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set when a release is built:
//
//	go build -ldflags "-X main.version=1.2.3"
var version = "0.1.0-dev"

// versionString names the version, the commit it was built from when that is
// known, and the Go release.
func versionString() string {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		dirty := ""
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value[:min(12, len(s.Value))]
			case "vcs.modified":
				if s.Value == "true" {
					dirty = "+changes"
				}
			}
		}
		commit += dirty
	}
	if commit != "" {
		commit = " (" + commit + ")"
	}
	return fmt.Sprintf("Kolo v%s%s %s", version, commit, runtime.Version())
}

type versionCommand struct{ meta }

func (c *versionCommand) Synopsis() string { return "Print the version" }

func (c *versionCommand) Help() string {
	return "Usage: kolo version\n\n  Prints the version of this program and the commit it was built from.\n"
}

func (c *versionCommand) Run(args []string) int {
	if len(args) > 0 {
		return c.usage(fmt.Errorf("kolo version takes no arguments, got %q", args), nil, c.Help())
	}
	c.UI.Output(versionString())
	return 0
}
