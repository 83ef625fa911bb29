// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/buildinfo"
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
		"version":         {[]string{"version"}, 0, "nomad-driver-horovod " + buildinfo.Version(), ""},
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

// The name by which the program is started selects the framework.
func TestNames(t *testing.T) {
	t.Setenv(pluginCookie, "")
	for program, want := range map[string]string{
		"nomad-driver-horovod": "horovod", "nomad-driver-torch": "torch", "nomad-driver-torch-0.2.0": "torch", "kolo-driver": "horovod",
	} {
		must.Eq(t, want, pick(program).name, must.Sprint(program))
	}
	for _, f := range frameworks {
		must.Eq(t, f.name, f.task(hclog.NewNullLogger()).Name())
		must.MapContainsKey(t, agents(), f.name)
		var stdout, stderr bytes.Buffer
		must.Eq(t, 0, run(f.program(), []string{"help"}, &stdout, &stderr))
		must.StrHasPrefix(t, f.program()+" runs elastic "+f.agent.Elastic.Name+" training", stdout.String())
	}
}

// A shell around the script reports a signal by its exit code.
func TestAborted(t *testing.T) {
	spawner, err := process.NewSpawner("")
	must.NoError(t, err)
	defer spawner.Close()
	sh, err := exec.LookPath("sh")
	must.NoError(t, err)
	whose := map[string]string{"horovod": "Horovod's or Gloo's abort", "torch": "PyTorch's or NCCL's abort"}
	for script, want := range map[string]struct{ aborted, own bool }{
		"kill -ABRT $$": {true, true},
		"exit 134":      {true, false},
		"kill -TERM $$": {false, false},
		"exit 0":        {false, false},
	} {
		p, err := spawner.Start(process.Spec{Command: sh, Args: []string{"-c", script}})
		must.NoError(t, err)
		<-p.Done()
		for _, f := range frameworks {
			aborted, why := f.agent.Host(framework.Options{}).Aborted(p.Exit())
			must.Eq(t, want.aborted, aborted, must.Sprint(f.name, script))
			if want.own {
				must.Eq(t, whose[f.name], why)
			} else {
				must.Eq(t, "", why, must.Sprint(f.name, script))
			}
		}
	}
}
