// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/nomad/drivers/shared/executor"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/driver/account"
	"github.com/kolo-nomad/kolo/driver/confine"
	"github.com/kolo-nomad/kolo/driver/gpu"
	"github.com/kolo-nomad/kolo/driver/hostnet"
	"github.com/kolo-nomad/kolo/driver/isolation"
	"github.com/kolo-nomad/kolo/driver/privatedirs"
	"github.com/kolo-nomad/kolo/driver/procid"
)

// launch starts the agent of a checked task with an executor of its own.
func (d *Driver) launch(pl *plan, c *drivers.TaskConfig, who account.Account, config *Config, client *base.AgentConfig, logger hclog.Logger) (_ *drivers.TaskHandle, _ *task, err error) {
	dirs := privateDirsOf(c)
	if err := dirs.Create(); err != nil {
		return nil, nil, err
	}
	if err := dirs.Sweep(); err != nil {
		logger.Warn("cannot remove what was kept for earlier allocations", "error", err)
	}
	command, made, err := prepare(pl, c, who, config, dirs)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			made.remove()
		}
	}()
	if pl.isolation == isolationExec {
		reservation := gpu.Reservation{Env: c.DeviceEnv, Given: c.Devices}
		if command.Devices, err = reservation.Devices(d.host, pl.gpus, filepath.Join(dirs.State, devicesName)); err != nil {
			return nil, nil, err
		}
	}
	outputs, err := openOutputs(c.AllocDir, c.StdoutPath, c.StderrPath)
	if err != nil {
		return nil, nil, err
	}
	defer outputs.close()
	command.StdoutPath, command.StderrPath = outputs.stdout, outputs.stderr
	exec, execClient, err := executor.CreateExecutor(logger, client.Driver, &executor.ExecutorConfig{
		LogFile:     filepath.Join(dirs.State, executorLogName),
		LogLevel:    config.ExecutorLogLevel,
		FSIsolation: pl.isolation == isolationExec,
		Compute:     client.Compute(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start the task's executor: %w", err)
	}
	ps, err := exec.Launch(command)
	if err != nil {
		execClient.Kill()
		return nil, nil, fmt.Errorf("start the agent: %w", err)
	}
	handle, t, err := newTask(c, ps, exec, execClient, made, logger)
	if err != nil {
		_ = exec.Shutdown("", 0)
		execClient.Kill()
		return nil, nil, err
	}
	return handle, t, nil
}

// prepared is what prepare made on the host.
type prepared struct {
	cleanup []string
	// confined says how package confine starts the task's processes, nil where
	// they need none.
	confined *confined
}

// remove takes it away again when the agent could not be started.
func (p *prepared) remove() {
	for _, path := range p.cleanup {
		_ = os.RemoveAll(path)
	}
}

// prepare writes the agent's files and puts together its command.
func prepare(pl *plan, c *drivers.TaskConfig, who account.Account, config *Config, dirs privatedirs.Dirs) (*executor.ExecCommand, *prepared, error) {
	binary, err := ownPath()
	if err != nil {
		return nil, nil, err
	}
	// An isolated task sees the binary whatever directory it lies in.
	at := account.Path{Base: "/", Rel: binary[1:]}
	if pl.isolation == isolationExec {
		at = account.Path{Base: binary, Rel: "."}
	}
	if err := who.Executable(at); err != nil {
		return nil, nil, fmt.Errorf("user = %q: cannot run the driver's binary %s, which is also the agent (%w); make it and its directories accessible", c.User, binary, err)
	}
	dir := c.TaskDir()
	inTask := dir.Dir // where the task sees its directory
	if pl.isolation == isolationExec {
		inTask = "/"
	}
	pl.agent.Cgroup = cgroupOf(c).ID()
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
		TaskDir:   dirs.Root,
		WorkDir:   pl.agent.Dir,
		Resources: c.Resources.Copy(),
	}
	if os.Geteuid() == 0 && (pl.isolation == isolationExec || who.UID != 0) {
		made.confined = &confined{Binary: binary, Identity: who.Identity(pl.isolation == isolationNone), Alarms: true}
		if pl.isolation == isolationExec {
			made.confined.Binary = isolation.AgentPath
			command.Env = append(command.Env, "USER="+who.Name, "LOGNAME="+who.Name, "HOME="+who.Home)
		}
		argv := made.confined.command([]string{made.confined.Binary, "agent"})
		command.Cmd, command.Args, command.User = argv[0], argv[1:], ""
		command.Env = confine.Environment(command.Env)
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
func isolate(command *executor.ExecCommand, made *prepared, pl *plan, c *drivers.TaskConfig, who account.Account, config *Config, binary string, dirs privatedirs.Dirs) error {
	shm, err := dirs.MakeShm(who.UID, who.GID)
	if err != nil {
		return err
	}
	made.cleanup = append(made.cleanup, shm)
	address, err := serviceAddress(c.Env, pl.agent.Listen)
	if err != nil {
		return err
	}
	files, err := isolation.NameService{DNS: c.DNS, Address: hostnet.NameFor(address)}.Files(dirs)
	if err != nil {
		return err
	}
	fs := isolation.Rootfs{
		Layout: isolation.Layout{TaskDir: c.TaskDir().Dir, AllocDir: c.AllocDir, BindPaths: config.BindPaths, Volumes: c.Mounts},
		Root:   dirs.Root, Binary: binary, Shm: shm, Files: files,
	}
	if command.Mounts, err = fs.Build(); err != nil {
		return err
	}
	command.Capabilities = confine.Capabilities()
	if command.User = who.Name; who.UID == 0 {
		command.User = "" // by the name "root" the executor gives capabilities of its own choice
	}
	command.ResourceLimits = true
	command.NoPivotRoot = config.NoPivotRoot
	command.ModePID = executor.IsolationModePrivate
	command.ModeIPC = executor.IsolationModePrivate
	return nil
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
	started, err := procid.Start(ps.Pid)
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
		checks: make(chan struct{}, maxChecks), done: make(chan struct{}), state: drivers.TaskStateRunning,
	}, nil
}

// serviceAddress is the address of the task's service, "" where no variable names
// it.
func serviceAddress(env map[string]string, listen string) (string, error) {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("service port: %w", err)
	}
	address := ""
	for k, v := range env {
		if strings.HasPrefix(k, "NOMAD_ADDR_") && strings.HasSuffix(v, ":"+port) {
			address = v
		}
	}
	return address, nil
}

// Files in a task's state directory.
const (
	executorLogName = "executor.out"
	devicesName     = "devices.json"
)

// privateDirsOf are the directories of root's own for a task.
func privateDirsOf(c *drivers.TaskConfig) privatedirs.Dirs {
	return privatedirs.New(c.AllocDir, filepath.Base(c.TaskDir().Dir))
}
