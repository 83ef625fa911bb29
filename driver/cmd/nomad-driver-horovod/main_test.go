// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/plugin"
)

func TestCommandLine(t *testing.T) {
	const program = "nomad-driver-horovod"
	t.Setenv(pluginCookie, "")
	cases := map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"by hand":         {nil, 2, "", "usage:"},
		"version":         {[]string{"version"}, 0, "nomad-driver-horovod " + plugin.Version, ""},
		"help":            {[]string{"-help"}, 0, "usage:", ""},
		"unknown command": {[]string{"serve"}, 2, "", `no command "serve"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			must.Eq(t, c.code, run(program, c.args, &stdout, &stderr))
			must.StrContains(t, stdout.String(), c.stdout)
			must.StrContains(t, stderr.String(), c.stderr)
			if c.code == 0 {
				must.Eq(t, "", stderr.String())
			} else {
				must.Eq(t, "", stdout.String())
			}
		})
	}
}
