// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"

	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
	"github.com/kolo-nomad/kolo/driver/task/gpu"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// plan is a checked task configuration in which everything is decided.
type plan struct {
	// isolation is "exec" (default) or "none".
	isolation string
	gpus      []string
	// devices are the variables that come from Nomad's devices.
	devices map[string]string
	agent   agentconfig.Config
	// tokens are identities that Nomad put only into the environment, by the file in the
	// task's secrets directory to write them to.
	tokens map[string]string
}

// validate checks a task's configuration against its host environment and fills in
// everything that was left open. Its error is of type problem.List and names every invalid
// field, its value and the remedy. validate changes nothing on the host.
func validate(framework Framework, given map[string]any, s *hostEnvironment) (*plan, error) {
	out := &plan{devices: s.devices}
	p := settings.Read(out.bind(), given, "config")
	checkIsolation(&p, out.isolation, s)
	checkNetwork(&p, s)
	v := isolation.HostView(s.taskDir)
	if out.isolation == isolationExec {
		v = s.layout().View()
	}
	task, wrong := taskconfig.Read(framework, given, s.surroundings(v))
	p = append(p, wrong...)
	out.gpus, out.agent, out.tokens = task.GPUs, task.Agent, task.Tokens
	return out, p.Err()
}

func checkIsolation(p *problem.List, mode string, s *hostEnvironment) {
	const field = "config.isolation"
	switch {
	case mode == isolationNone && !s.plugin.AllowIsolationNone:
		p.Add(field, mode, "not allowed on this client", `use "exec", or set allow_isolation_none = true in the config of `+s.plugin.block)
	case mode == isolationExec && s.execIsolation != nil:
		p.Add(field, mode, fmt.Sprintf("not possible on this client (%v)", s.execIsolation), `use "none" where the client allows it`)
	}
	if mode == isolationExec {
		*p = append(*p, s.layout().CheckVolumes()...)
		for _, wrong := range s.layout().CheckBindPaths() {
			wrong.Field = s.plugin.block + ": " + wrong.Field
			*p = append(*p, wrong)
		}
	}
	if mode == isolationNone {
		for _, m := range s.mounts {
			if m.TaskPath != m.HostPath {
				p.Add("volume_mount.destination", m.TaskPath, `needs isolation = "exec"`, fmt.Sprintf(`with "none" the task finds it at %q`, m.HostPath))
			}
		}
	}
}

// environment returns the agent's environment: the task's variables, those for the GPUs,
// and the name of the agent's configuration file.
func (pl *plan) environment(env map[string]string, configFile string) []string {
	env = maps.Clone(env)
	gpu.Show(env, pl.devices, pl.gpus)
	env[agentconfig.Variable] = configFile
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, fmt.Sprintf("%s=%s", k, v))
	}
	slices.Sort(list)
	return list
}
