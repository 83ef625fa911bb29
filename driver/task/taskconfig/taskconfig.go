// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/gpu"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Framework is Read's interface to a training framework.
type Framework interface {
	// Name returns the framework's name, which is also the name of the block with its own
	// settings.
	Name() string
	// Foreign returns the fields and blocks that belong to other frameworks. A job may
	// contain them, so that Environment can refuse them and state the right ones.
	Foreign() (fields, blocks []string)
	// Environment returns the variables for a task's config, from the framework's block and
	// from outside of it. Only the variables of the block are part of the training's
	// identity.
	Environment(given map[string]any) (block, outside map[string]string, problems problem.List)
	// Restart returns how to replace processes that can't change their ring, for a task's
	// config.
	Restart(given map[string]any) (r settings.Restart, problems problem.List)
}

// Surroundings describes a task to Read: where it runs, and which files it sees. It
// consists of plain data and a few functions, so that tests can fake it. Paths are the
// task's, except where a comment states otherwise.
type Surroundings struct {
	// Env is the task's environment, and Devices the part of it that comes from Nomad's
	// devices.
	Env, Devices map[string]string
	// Dir is the directory that slots start in unless the config names another.
	Dir string
	// Locate returns the absolute form of a path.
	Locate func(path string) string
	// User is the task's user, for messages. Readable returns nil if that user may read a
	// file, Executable if the user may run it, Enterable if the user may start in that
	// directory. A *fs.PathError with the operation "enter" names a directory on the way
	// that the user cannot enter; any other names the path that links lead to.
	User                            string
	Readable, Executable, Enterable func(path string) error
	// Hidden is added to messages about missing files if the task sees only a part of the
	// client; otherwise it is empty.
	Hidden string
	// below is added to messages about relative paths that are not looked up in the task
	// directory.
	below string
	// Unreadable is added to a message if the user may not read the task's identity.
	Unreadable string
	// Secrets is the task's secrets directory, and SecretsOnClient its path on the client.
	// Exists reports whether a path of the client exists.
	Secrets, SecretsOnClient string
	Exists                   func(onClient string) bool
	// OwnNetwork states that the task's group has a network of its own, in which the
	// service has the allocation's address.
	OwnNetwork bool
	// Interface is the network interface of tasks that name none, and InterfaceOf the place
	// where it is set. Interfaces returns the interfaces that the task sees.
	Interface, InterfaceOf string
	Interfaces             func() ([]string, error)
}

// Task is a task configuration that has been checked, and in which every setting has a
// value.
type Task struct {
	Agent config.Config
	// GPUs are the reserved GPUs.
	GPUs []string
	// Tokens are identities that Nomad put only into the environment, by the name of the
	// file in the secrets directory where Agent expects them.
	Tokens map[string]string

	// port is the label of the service's port; by default the group's only port, else
	// "kolo".
	port string
}

// Settings returns the fields of a task's config that do not depend on the framework.
func Settings() []settings.Setting {
	var t Task
	return append(t.bind(), t.Agent.Bind()...)
}

// bind sets the fields of a task's config, except for the settings of training, to their
// defaults, and returns the settings that fill them.
func (t *Task) bind() []settings.Setting {
	a := &t.Agent
	return []settings.Setting{
		settings.Word(&a.Command, "command", "required", "program of one slot, looked up in the task's PATH"),
		settings.Words(&a.Args, "args", "its arguments"),
		settings.Func(workDir, settings.Text, "the task directory", "directory that slots start in", func(path string) error {
			a.Dir = path
			return checkPath(path)
		}),
		settings.Word(&a.Service, "service", "required", "the Nomad service by which the agents find each other"),
		settings.Word(&t.port, "port", "the only one, else kolo", "label of the service's port"),
		settings.Word(&a.Interface, "interface", "the one with the service's address", "network interface of training traffic"),
		settings.Func("topology", settings.Text, "none", "the client's place in the network, outermost first", func(path string) error {
			a.Topology = path
			return elastic.CheckTopology(path)
		}),
	}
}

// Read checks the given config and fills in everything that was left open. Each problem
// names the field, its value and the remedy.
func Read(framework Framework, given map[string]any, s *Surroundings) (*Task, problem.List) {
	t := &Task{GPUs: gpu.Reserved(s.Devices), Tokens: map[string]string{}}
	a := &t.Agent
	a.Framework = framework.Name()
	p := slices.Concat(settings.Read(t.bind(), given, "config"), gpu.Check(t.GPUs), a.Training.Read(own(framework, given), max(len(t.GPUs), 1)))
	checkSlots(&p, a.Slots, len(t.GPUs))
	var environment, restart problem.List
	a.Env, a.RunEnv, environment = framework.Environment(given)
	a.Restart, restart = framework.Restart(given)
	p = slices.Concat(p, environment, restart)
	if s, found := enterWorkDir(&p, a, s); found {
		checkCommand(&p, a, s)
	}
	checkService(&p, t.port, a, s)
	checkInterface(&p, a, s)
	checkIdentity(&p, t, s)
	fillFacts(&p, a, s.Env)
	return t, p
}

// own returns given without the fields that belong to other frameworks.
func own(framework Framework, given map[string]any) map[string]any {
	given = maps.Clone(given)
	fields, _ := framework.Foreign()
	for _, name := range fields {
		delete(given, name)
	}
	return given
}

// checkSlots compares slots with GPUs. It does not know the group's count, so only the
// agent's elastic_timeout detects an np above what the group can provide.
func checkSlots(p *problem.List, slots, gpus int) {
	if gpus > 0 && slots > gpus {
		p.Add("config.slots", slots, fmt.Sprintf("only %d GPUs are reserved, and two processes on one GPU cannot form a ring with NCCL", gpus), "reserve more or leave slots out")
	}
}

// fillFacts fills in the agent's identity in Nomad.
func fillFacts(p *problem.List, a *config.Config, env map[string]string) {
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
			p.Add(fact.key, nil, "is missing from the task's environment", "Nomad 1.8 or newer sets it")
		}
	}
	const number = "NOMAD_ALLOC_INDEX"
	index, err := strconv.Atoi(env[number])
	if err != nil || index < 0 {
		p.Add(number, env[number], "Nomad should have set it to a number", "")
	}
	a.Index = index
}
