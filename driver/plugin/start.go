// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	taskcaps "github.com/hashicorp/nomad/drivers/shared/capabilities"
	"github.com/hashicorp/nomad/drivers/shared/executor"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/driver/agent"
)

// defaultUser runs isolated tasks whose job names no user, as in Nomad's exec.
const defaultUser = "nobody"

// StartTask checks the task's configuration and starts its agent. An error is
// shown as the task event "Driver Failure".
func (d *Driver) StartTask(c *drivers.TaskConfig) (*drivers.TaskHandle, *drivers.DriverNetwork, error) {
	config, client, users := d.settings()
	if !config.Enabled {
		return nil, nil, fmt.Errorf("driver %s is disabled on this client", Name)
	}
	if client == nil || client.Driver == nil || client.Driver.Topology == nil {
		return nil, nil, errors.New("the Nomad client has not said what hardware it runs on")
	}
	if _, err := d.task(c.ID); err == nil {
		return nil, nil, fmt.Errorf("task %s is already started", c.ID)
	}
	var tc TaskConfig
	if err := c.DecodeDriverConfig(&tc); err != nil {
		return nil, nil, fmt.Errorf("decode the task's config: %w", err)
	}
	if c.User == "" && tc.Isolation != isolationNone {
		c.User = defaultUser
	}
	who, err := lookupAccount(c.User)
	if err != nil {
		return nil, nil, err
	}
	if err := users.HasValidIDs(who.name); err != nil {
		return nil, nil, fmt.Errorf("user = %q: %w", who.name, err)
	}
	config.BindPaths = present(config.BindPaths)
	pl, err := validate(&tc, hostSurroundings(&config, c, who))
	if err != nil {
		return nil, nil, err
	}

	logger := d.logger.With("task_name", c.Name, "alloc_id", c.AllocID)
	command, made, err := prepare(pl, c, who, &config, logger)
	if err != nil {
		return nil, nil, err
	}
	exec, execClient, err := executor.CreateExecutor(logger, client.Driver, &executor.ExecutorConfig{
		LogFile:     filepath.Join(c.TaskDir().Dir, "executor.out"),
		LogLevel:    config.ExecutorLogLevel,
		FSIsolation: pl.isolation == isolationExec,
		Compute:     client.Compute(),
	})
	if err != nil {
		made.remove()
		return nil, nil, fmt.Errorf("start the task's executor: %w", err)
	}
	ps, err := exec.Launch(command)
	if err != nil {
		execClient.Kill()
		made.remove()
		return nil, nil, fmt.Errorf("start the agent: %w", err)
	}

	handle, t, err := newTask(c, ps, exec, execClient, made, logger)
	if err != nil {
		_ = exec.Shutdown("", 0)
		execClient.Kill()
		made.remove()
		return nil, nil, err
	}
	t.tail = d.newTail(c, logger)
	d.addTask(t)
	go t.watch(d.ctx)
	logger.Info("agent started", "pid", ps.Pid, "isolation", pl.isolation, "slots", pl.agent.Slots, "gpus", len(pl.gpus), "listen", pl.agent.Listen)
	return handle, nil, nil
}

// newTask makes a task of a launched agent, and the handle to find it again.
func newTask(c *drivers.TaskConfig, ps *executor.ProcessState, exec executor.Executor, client *goplugin.Client, made *prepared, logger hclog.Logger) (*drivers.TaskHandle, *task, error) {
	state := handleState{
		Reattach:   pstructs.ReattachConfigFromGoPlugin(client.ReattachConfig()),
		Pid:        ps.Pid,
		StartedAt:  time.Now().Round(time.Millisecond),
		ConfigFile: made.configFile,
		Cleanup:    made.cleanup,
	}
	handle := drivers.NewTaskHandle(handleVersion)
	handle.Config = c
	handle.State = drivers.TaskStateRunning
	if err := handle.SetDriverState(&state); err != nil {
		return nil, nil, fmt.Errorf("encode the task's handle: %w", err)
	}
	return handle, &task{
		config: c, pid: state.Pid, startedAt: state.StartedAt, cleanup: state.Cleanup,
		exec: exec, executor: client, logger: logger,
		done: make(chan struct{}), state: drivers.TaskStateRunning,
	}, nil
}

// RecoverTask finds a task's executor again after the plugin or the client was
// restarted. On an error Nomad starts the task anew.
func (d *Driver) RecoverTask(handle *drivers.TaskHandle) error {
	if handle == nil || handle.Config == nil {
		return errors.New("recover: no handle")
	}
	c := handle.Config
	if _, err := d.task(c.ID); err == nil {
		return nil
	}
	if handle.Version > handleVersion {
		return fmt.Errorf("recover: the task was started by a newer driver (handle version %d, this one knows %d)", handle.Version, handleVersion)
	}
	var state handleState
	if err := handle.GetDriverState(&state); err != nil {
		return fmt.Errorf("recover: decode the task's handle: %w", err)
	}
	reattach, err := pstructs.ReattachConfigToGoPlugin(state.Reattach)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	logger := d.logger.With("task_name", c.Name, "alloc_id", c.AllocID)
	_, client, _ := d.settings()
	exec, execClient, err := executor.ReattachToExecutor(reattach, logger, client.Compute())
	if err != nil {
		if killErr := killOrphan(state.Pid, state.ConfigFile); killErr != nil {
			logger.Warn("cannot end an agent without executor", "pid", state.Pid, "error", killErr)
		}
		return fmt.Errorf("recover: the task's executor cannot be reached: %w", err)
	}
	t := &task{
		config: c, pid: state.Pid, startedAt: state.StartedAt, cleanup: state.Cleanup,
		exec: exec, executor: execClient, tail: d.newTail(c, logger), logger: logger,
		done: make(chan struct{}), state: drivers.TaskStateRunning,
	}
	d.addTask(t)
	go t.watch(d.ctx)
	logger.Info("task recovered", "pid", t.pid)
	return nil
}

// hostSurroundings asks this machine what validate wants to know.
func hostSurroundings(config *Config, c *drivers.TaskConfig, who account) *surroundings {
	dir := c.TaskDir()
	return &surroundings{
		plugin: config, env: c.Env, mounts: c.Mounts,
		taskDir: dir.Dir, allocDir: c.AllocDir, localDir: dir.LocalDir, secretsDir: dir.SecretsDir,
		execIsolation: canIsolate(),
		exists:        func(path string) bool { _, err := os.Stat(path); return err == nil },
		user:          who.name, readable: who.readable, executable: who.executable,
		ownNetwork: c.NetworkIsolation != nil,
		interfaces: agent.InterfaceNames,
	}
}

// prepared is what prepare made on the host.
type prepared struct {
	configFile string
	cleanup    []string
}

// remove takes it away again when the agent could not be started.
func (p *prepared) remove() {
	for _, path := range p.cleanup {
		_ = os.RemoveAll(path)
	}
}

// prepare writes the agent's files and puts together its command.
func prepare(pl *plan, c *drivers.TaskConfig, who account, config *Config, logger hclog.Logger) (*executor.ExecCommand, *prepared, error) {
	binary, err := ownPath()
	if err != nil {
		return nil, nil, err
	}
	// An isolated task sees the binary whatever directory it lies in.
	at := place{"/", binary[1:]}
	if pl.isolation == isolationExec {
		at = place{binary, "."}
	}
	if err := who.executable(at); err != nil {
		return nil, nil, fmt.Errorf("user = %q: cannot run the driver's binary %s, which is also the agent (%w); make it and its directories accessible", c.User, binary, err)
	}
	dir := c.TaskDir()
	inTask := dir.Dir // where the task sees its directory
	if pl.isolation == isolationExec {
		inTask = "/"
	}
	pl.agent.Cgroup = cgroupID(c)
	if err := writeAgentFiles(pl, dir.Dir, inTask, who); err != nil {
		return nil, nil, err
	}
	made := &prepared{configFile: filepath.Join(inTask, configPath)}
	command := &executor.ExecCommand{
		Cmd:        binary,
		Args:       []string{"agent"},
		Env:        pl.environment(c.Env, made.configFile),
		User:       c.User,
		TaskDir:    dir.Dir,
		WorkDir:    pl.agent.Dir,
		StdoutPath: c.StdoutPath,
		StderrPath: c.StderrPath,
		Resources:  c.Resources.Copy(),
	}
	if pl.isolation == isolationExec {
		if err := isolate(command, made, pl, c, who, config, binary, logger); err != nil {
			made.remove()
			return nil, nil, err
		}
	}
	return command, made, nil
}

// isolate adds what a task in namespaces of its own needs.
func isolate(command *executor.ExecCommand, made *prepared, pl *plan, c *drivers.TaskConfig, who account, config *Config, binary string, logger hclog.Logger) error {
	shm, err := makeShm(c, who)
	if err != nil {
		return err
	}
	made.cleanup = append(made.cleanup, shm)
	if err := linkHostPaths(c.TaskDir().Dir, c.AllocDir); err != nil {
		return err
	}
	mounts := isolationMounts(config.BindPaths, c.AllocDir, binary, shm)
	if c.DNS != nil {
		resolv, err := writeResolvConf(c)
		if err != nil {
			return err
		}
		mounts = append(mounts, &drivers.MountConfig{TaskPath: "/etc/resolv.conf", HostPath: resolv, Readonly: true})
	}
	if hosts, err := writeHosts(c, pl.agent.Listen); err != nil {
		return err
	} else if hosts != "" {
		mounts = append(mounts, &drivers.MountConfig{TaskPath: "/etc/hosts", HostPath: hosts, Readonly: true})
	}
	nodes, unknown := gpuNodes(os.DirFS("/"), pl.gpus, c.Devices)
	if len(unknown) > 0 {
		logger.Warn("cannot tell which device nodes belong to some GPUs; the task gets those of all", "gpus", unknown)
	}
	caps, err := taskcaps.Calculate(taskcaps.NomadDefaults(), taskcaps.NomadDefaults().Slice(false), nil, nil)
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	command.Cmd = agentInTask
	command.Capabilities = caps
	command.Mounts = append(mounts, c.Mounts...)
	command.Devices = mergeDevices(slices.Clone(c.Devices), nodes)
	command.ResourceLimits = true
	command.NoPivotRoot = config.NoPivotRoot
	command.ModePID = executor.IsolationModePrivate
	command.ModeIPC = executor.IsolationModePrivate
	return nil
}
