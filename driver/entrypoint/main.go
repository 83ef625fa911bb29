// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package entrypoint

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent"
	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/task/gpu"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
	"github.com/kolo-nomad/kolo/driver/task/workerflags"
)

// Framework holds the parts of a training framework that kolo-worker needs.
type Framework struct {
	Task  workerflags.Framework
	Agent framework.Framework
}

// Exit codes in addition to the agent's.
const (
	codeRefused = 1
	codeUsage   = 2
	// codeLeft is the exit code of a program that SIGTERM ends. It is not a success, so
	// that Nomad replaces a task that it has not stopped itself.
	codeLeft = 128 + int(syscall.SIGTERM)
)

// systemdStop is SIGRTMIN+3, the STOPSIGNAL of images that start with systemd.
const systemdStop = syscall.Signal(37)

// stop are the signals that ask the agent to leave. The image may choose which one a
// runtime sends (STOPSIGNAL).
var stop = append(slices.Clone(agent.Stop), syscall.SIGQUIT, systemdStop)

// Main runs a task's program and returns its exit code.
func Main(ctx context.Context, frameworks []Framework, args []string, stdout, stderr io.Writer) int {
	signals := agent.Signals(systemdStop) // before anything slow
	process.IgnoreSIGPIPE()
	if os.Getpid() == 1 { // of a container
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go process.ReapOrphans(ctx)
	}
	tasks := tasksOf(frameworks)
	o, err := workerflags.Parse(tasks, args)
	if errors.Is(err, flag.ErrHelp) {
		workerflags.Usage(stdout, tasks)
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "kolo-worker: %v\n", err)
		linger(ctx, signals)
		return codeUsage
	}
	c, warnings, err := configure(o, environ())
	if err != nil {
		refuse(stderr, err)
		linger(ctx, signals)
		return codeRefused
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "kolo", Output: stderr, Level: hclog.LevelFromString(os.Getenv("KOLO_LOG_LEVEL"))})
	ev, err := events.Open("", log)
	if err != nil {
		log.Error("the agent can't start", "error", err)
		return codeRefused
	}
	for _, warning := range warnings {
		ev.Warn(warning.Error())
	}
	return exitCode(agent.Run(ctx, agent.Options{Config: *c, Framework: agentOf(frameworks, o.Framework), Signals: signals, Stop: stop, Events: ev, Logger: log}))
}

// refuse prints the problems, one per line.
func refuse(stderr io.Writer, err error) {
	var refused problem.List
	if !errors.As(err, &refused) {
		_, _ = fmt.Fprintf(stderr, "kolo-worker: %v\n", err)
		return
	}
	for _, wrong := range refused {
		_, _ = fmt.Fprintf(stderr, "kolo-worker: %v\n", wrong)
	}
}

// lingering is how long a container that can't train stays alive. Nomad's docker driver
// starts to read a container's output after the start, and removes the container at its
// end. If it ended at once, the reason would be lost.
const lingering = 3 * time.Second

// linger gives Nomad time to read the reason of a failure, if this is the first process of
// a container.
func linger(ctx context.Context, signals <-chan os.Signal) {
	if os.Getpid() != 1 {
		return
	}
	select {
	case <-time.After(lingering):
	case <-signals:
	case <-ctx.Done():
	}
}

func tasksOf(frameworks []Framework) []workerflags.Framework {
	tasks := make([]workerflags.Framework, len(frameworks))
	for i, f := range frameworks {
		tasks[i] = f.Task
	}
	return tasks
}

func agentOf(frameworks []Framework, task workerflags.Framework) framework.Framework {
	at := slices.IndexFunc(frameworks, func(f Framework) bool { return f.Task.Name() == task.Name() })
	return frameworks[at].Agent
}

// exitCode returns the exit code that tells Nomad how the agent ended.
func exitCode(r host.Result) int {
	if r.Code == 0 && !r.Completed {
		return codeLeft
	}
	return r.Code
}

// errNoNomad is the error if the program is started by hand.
var errNoNomad = errors.New("not started by Nomad, as NOMAD_ALLOC_ID is not set: it is the program of a Nomad task; " +
	"nomad-driver-horovod run and nomad-driver-torch run train without Nomad")

// configure makes the agent's configuration, and checks the environment that it runs in.
func configure(o *workerflags.Flags, env map[string]string) (_ *config.Config, warnings problem.List, err error) {
	if env["NOMAD_ALLOC_ID"] == "" {
		return nil, nil, errNoNomad
	}
	s, err := surroundings(env)
	if err != nil {
		return nil, nil, err
	}
	given := o.Given(env)
	cuts := mayCut()
	if cuts != nil && given["gloo_timeout"] == nil && o.Framework.Name() == "horovod" {
		given["gloo_timeout"] = withoutCutting
	}
	t, problems := taskconfig.Read(o.Framework, given, s)
	more, warnings := collect(o, env, t, cuts).check()
	if err := slices.Concat(problems, more).Err(); err != nil {
		return nil, nil, err
	}
	c := &t.Agent
	c.LeaveTimeout = settings.Duration(config.LeaveWithin(max(o.Kill, 0)))
	if o.Kill == 0 {
		c.LeaveTimeout = settings.Duration(config.LeaveWithin(workerflags.KillTimeout))
	}
	c.Memory = memoryLimit("/sys/fs/cgroup")
	useEnvironment(c, t.Tokens)
	gpu.Show(c.RunEnv, nil, t.GPUs)
	if err := makeDirs(c, env["NOMAD_TASK_DIR"]); err != nil {
		return nil, nil, err
	}
	if err := giveHome(c, env); err != nil {
		return nil, nil, err
	}
	return c, warnings, giveTemporary(c, env, "/tmp", "/var/tmp")
}

// useEnvironment leaves identities that Nomad put only into the environment there: the
// agent finds them.
func useEnvironment(c *config.Config, tokens map[string]string) {
	for _, file := range []*string{&c.TokenFile, &c.PeerTokenFile} {
		if tokens[filepath.Base(*file)] != "" {
			*file = ""
		}
	}
}
