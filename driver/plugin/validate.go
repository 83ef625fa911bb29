// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/gpu"
	"github.com/kolo-nomad/kolo/driver/isolation"
	"github.com/kolo-nomad/kolo/driver/settings"
)

// plan is a checked task configuration with everything decided.
type plan struct {
	// isolation is "exec" (default) or "none".
	isolation string
	// port is the label of the service's port; by default the group's only port, else
	// "kolo".
	port string
	gpus []string
	// devices are the variables that Nomad's devices gave.
	devices map[string]string
	agent   agentconfig.Config
	// tokens are identities that Nomad gave in the environment alone, by the file of
	// the task directory to put them in.
	tokens map[string]string
}

// validate checks a task's configuration against its host environment and decides
// all that was left open. Its error is of type problems and names every field in
// question, its value and what to do. It changes nothing.
func validate(framework Framework, given map[string]any, s *hostEnvironment) (*plan, error) {
	var p problems
	out := &plan{gpus: gpu.Reserved(s.devices), devices: s.devices, tokens: map[string]string{}}
	a := &out.agent

	a.Framework = framework.Name()
	p.add(settings.Read(out.bind(), given, ""))
	checkIsolation(&p, out.isolation, s)
	v := isolation.HostView(s.taskDir)
	if out.isolation == isolationExec {
		v = s.layout().View()
	}
	p.add(gpu.Check(out.gpus))
	p.add(a.Training.Read(given, max(len(out.gpus), 1)))
	checkSlots(&p, a.Slots, len(out.gpus))
	var wrong []string
	a.Env, a.RunEnv, wrong = framework.Environment(given)
	p.add(wrong)
	a.Restart, wrong = framework.Restart(given)
	p.add(wrong)
	checkCommand(&p, a, s, v)
	checkNetwork(&p, s)
	checkService(&p, out.port, a, s)
	checkInterface(&p, a, s)
	checkIdentity(&p, out, s, v)
	fillFacts(&p, a, s.env)
	return out, p.err()
}

func checkIsolation(p *problems, mode string, s *hostEnvironment) {
	switch {
	case mode == isolationNone && !s.plugin.AllowIsolationNone:
		p.addf(`isolation = "none": not allowed on this client; use "exec", or set allow_isolation_none = true in the config of %s`, s.plugin.block)
	case mode == isolationExec && s.execIsolation != nil:
		p.addf(`isolation = "exec": not possible on this client (%v); use "none" where the client allows it`, s.execIsolation)
	}
	if mode == isolationExec {
		p.add(s.layout().CheckVolumes())
		for _, problem := range s.layout().CheckBindPaths() {
			p.addf("bind_paths (of %s): %s", s.plugin.block, problem)
		}
	}
	if mode == isolationNone {
		for _, m := range s.mounts {
			if m.TaskPath != m.HostPath {
				p.addf(`volume_mount at %q: needs isolation = "exec"; with "none" the task finds it at %q`, m.TaskPath, m.HostPath)
			}
		}
	}
}

// checkSlots compares slots with GPUs. The plugin does not know the group's
// count, so that np above what the group can give is found by the agent's
// elastic_timeout only.
func checkSlots(p *problems, slots, gpus int) {
	if gpus > 0 && slots > gpus {
		p.addf("slots = %d: only %d GPUs are reserved, and two processes on one GPU cannot form a ring with NCCL; reserve more or leave slots out", slots, gpus)
	}
}

// fillFacts fills in who the agent is in Nomad's words.
func fillFacts(p *problems, a *agentconfig.Config, env map[string]string) {
	for _, fact := range []struct {
		key string
		to  *string
	}{
		{"NOMAD_NAMESPACE", &a.Namespace},
		{"NOMAD_JOB_ID", &a.JobID},
		{"NOMAD_GROUP_NAME", &a.Group},
		{"NOMAD_TASK_NAME", &a.Task},
		{"NOMAD_ALLOC_ID", &a.AllocID},
	} {
		if *fact.to = env[fact.key]; *fact.to == "" {
			p.addf("%s: is missing from the task's environment; Nomad 1.8 or newer sets it", fact.key)
		}
	}
	index, err := strconv.Atoi(env["NOMAD_ALLOC_INDEX"])
	if err != nil || index < 0 {
		p.addf("NOMAD_ALLOC_INDEX = %q: Nomad should have set it to a number", env["NOMAD_ALLOC_INDEX"])
	}
	a.Index = index
}

// environment is what the agent runs with: the task's, the GPUs, and the name
// of its configuration file.
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
