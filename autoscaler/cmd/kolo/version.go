// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

type versionCommand struct{ meta }

func (c *versionCommand) Synopsis() string { return "Print the version" }

func (c *versionCommand) Help() string {
	return "Usage: kolo version\n\n  Prints the version of this program, and the commit it was built from with\n  its date.\n"
}

func (c *versionCommand) Run(args []string) int {
	if len(args) > 0 {
		return c.usage(fmt.Errorf("kolo version takes no arguments, got %q", args), nil, c.Help())
	}
	c.UI.Output(buildinfo.Line("kolo"))
	return 0
}
