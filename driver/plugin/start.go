// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/nomad/drivers/shared/executor"
	"github.com/hashicorp/nomad/drivers/shared/validators"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/driver/agent"
	"github.com/kolo-nomad/kolo/driver/confine"
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
	if c.Name != filepath.Base(c.TaskDir().Dir) {
		return nil, nil, fmt.Errorf("task %q: its name leads out of the allocation's directory; choose another", c.Name)
	}
	var tc TaskConfig
	if err := c.DecodeDriverConfig(&tc); err != nil {
		return nil, nil, fmt.Errorf("decode the task's config: %w", err)
	}
	who, err := taskAccount(c, &tc, &config, users)
	if err != nil {
		return nil, nil, err
	}
	config.BindPaths = present(config.BindPaths)
	pl, err := validate(&tc, hostSurroundings(&config, c, who))
	if err != nil {
		return nil, nil, err
	}

	logger := d.logger.With("task_name", c.Name, "alloc_id", c.AllocID)
	dirs := privateDirsOf(c)
	if err := dirs.create(); err != nil {
		return nil, nil, err
	}
	if err := dirs.sweep(); err != nil {
		logger.Warn("cannot remove what was kept for earlier allocations", "error", err)
	}
	command, made, err := prepare(pl, c, who, &config, dirs)
	if err != nil {
		return nil, nil, err
	}
	if pl.isolation == isolationExec {
		if command.Devices, err = taskDevices(d.host, c, pl.gpus, dirs); err != nil {
			made.remove()
			return nil, nil, err
		}
	}
	outputs, err := openOutputs(c.AllocDir, c.StdoutPath, c.StderrPath)
	if err != nil {
		made.remove()
		return nil, nil, err
	}
	defer outputs.close()
	command.StdoutPath, command.StderrPath = outputs.stdout, outputs.stderr
	exec, execClient, err := executor.CreateExecutor(logger, client.Driver, &executor.ExecutorConfig{
		LogFile:     filepath.Join(dirs.state, executorLogName),
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

// taskAccount decides which user a task runs as, and refuses those it must not.
func taskAccount(c *drivers.TaskConfig, tc *TaskConfig, config *Config, users *validators.Validator) (account, error) {
	isolated := tc.Isolation != isolationNone
	if c.User == "" && isolated {
		c.User = defaultUser
	}
	who, err := lookupAccount(c.User)
	if err != nil {
		return account{}, err
	}
	if c.User != "" {
		c.User = who.name // Nomad's executor knows no numbers
	}
	if isolated && !config.AllowRoot {
		if err := who.checkRoot(); err != nil {
			return account{}, err
		}
	}
	if err := users.HasValidIDs(who.name); err != nil {
		return account{}, fmt.Errorf("user = %q: %w", who.name, err)
	}
	return who, nil
}

// newTask makes a task of a launched agent, and the handle to find it again.
func newTask(c *drivers.TaskConfig, ps *executor.ProcessState, exec executor.Executor, client *goplugin.Client, made *prepared, logger hclog.Logger) (*drivers.TaskHandle, *task, error) {
	state := handleState{
		Reattach:  pstructs.ReattachConfigFromGoPlugin(client.ReattachConfig()),
		Pid:       ps.Pid,
		StartedAt: time.Now().Round(time.Millisecond),
		Cleanup:   made.cleanup,
		Confined:  made.confined,
	}
	started, err := processStart(ps.Pid)
	if err != nil {
		logger.Debug("cannot note when the agent started", "error", err) // it has ended
	}
	state.Started = started
	handle := drivers.NewTaskHandle(handleVersion)
	handle.Config = c
	handle.State = drivers.TaskStateRunning
	if err := handle.SetDriverState(&state); err != nil {
		return nil, nil, fmt.Errorf("encode the task's handle: %w", err)
	}
	return handle, &task{
		config: c, pid: state.Pid, startedAt: state.StartedAt, cleanup: state.Cleanup, confined: state.Confined,
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
		if killErr := killOrphan(state.Pid, state.Started); killErr != nil {
			logger.Warn("cannot end an agent without executor", "pid", state.Pid, "error", killErr)
		}
		return fmt.Errorf("recover: the task's executor cannot be reached: %w", err)
	}
	if err := privateDirsOf(c).createState(); err != nil {
		logger.Warn("cannot note which events were passed on", "error", err)
	}
	t := &task{
		config: c, pid: state.Pid, startedAt: state.StartedAt, cleanup: state.Cleanup, confined: state.Confined,
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
		plugin: config, env: c.Env, devices: c.DeviceEnv, mounts: c.Mounts,
		taskDir: dir.Dir, allocDir: c.AllocDir, localDir: dir.LocalDir, secretsDir: dir.SecretsDir,
		execIsolation: canIsolate(),
		exists:        func(path string) bool { _, err := os.Stat(path); return err == nil },
		user:          who.name, readable: who.readable, executable: who.executable,
		throughLink: func(path string) bool { return throughLink(dir.Dir, path) },
		ownNetwork:  c.NetworkIsolation != nil,
		interfaces:  agent.InterfaceNames,
	}
}

// prepared is what prepare made on the host.
type prepared struct {
	cleanup []string
	// confined is what the task's processes run as where its container needs
	// package confine for that.
	confined *confine.Identity
}

// remove takes it away again when the agent could not be started.
func (p *prepared) remove() {
	for _, path := range p.cleanup {
		_ = os.RemoveAll(path)
	}
}

// prepare writes the agent's files and puts together its command.
func prepare(pl *plan, c *drivers.TaskConfig, who account, config *Config, dirs privateDirs) (*executor.ExecCommand, *prepared, error) {
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
	made := &prepared{}
	command := &executor.ExecCommand{
		Cmd:  binary,
		Args: []string{"agent"},
		Env:  pl.environment(c.Env, filepath.Join(inTask, configPath)),
		User: c.User,
		// The executor looks for Cmd here first, and makes what it finds
		// executable: it must not be the task's own directory.
		TaskDir:   dirs.root,
		WorkDir:   pl.agent.Dir,
		Resources: c.Resources.Copy(),
	}
	if pl.isolation == isolationExec {
		if err := isolate(command, made, pl, c, who, config, binary, dirs); err != nil {
			made.remove()
			return nil, nil, err
		}
	}
	return command, made, nil
}

// isolate adds what a task in namespaces of its own needs.
func isolate(command *executor.ExecCommand, made *prepared, pl *plan, c *drivers.TaskConfig, who account, config *Config, binary string, dirs privateDirs) error {
	shm, err := makeShm(c, who)
	if err != nil {
		return err
	}
	made.cleanup = append(made.cleanup, shm)
	files, err := nameFiles(c, dirs, pl.agent.Listen)
	if err != nil {
		return err
	}
	fs := rootfs{
		dirs: dirs, taskDir: c.TaskDir().Dir, allocDir: c.AllocDir, bindPaths: config.BindPaths,
		volumes: c.Mounts, binary: binary, shm: shm, files: files,
	}
	if command.Mounts, err = fs.build(); err != nil {
		return err
	}
	id := who.identity()
	made.confined = &id
	command.Cmd, command.Args = agentInTask, confine.Arguments(id, []string{agentInTask, "agent"})
	command.Env = confine.Environment(append(command.Env, "USER="+who.name, "LOGNAME="+who.name, "HOME="+who.home))
	command.Capabilities = confine.Capabilities()
	if command.User = who.name; who.uid == 0 {
		command.User = "" // by the name "root" the executor gives capabilities of its own choice
	}
	command.ResourceLimits = true
	command.NoPivotRoot = config.NoPivotRoot
	command.ModePID = executor.IsolationModePrivate
	command.ModeIPC = executor.IsolationModePrivate
	return nil
}
