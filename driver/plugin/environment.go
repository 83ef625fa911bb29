// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/nomad/drivers/shared/executor"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/sandbox/account"
	"github.com/kolo-nomad/kolo/driver/sandbox/confine"
	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
	"github.com/kolo-nomad/kolo/driver/sandbox/privatedirs"
	"github.com/kolo-nomad/kolo/driver/task/gpu/devnode"
)

// environment is everything that the agent of a checked task runs in. prepare makes it,
// launch starts the agent in it, and release frees the parts that are no longer needed.
type environment struct {
	config *Config
	client *base.AgentConfig
	task   *drivers.TaskConfig
	who    account.Account
	plan   *plan
	host   fs.FS
	// network is the group's own, nil if the group uses the client's.
	network *groupNetwork
	logger  hclog.Logger

	dirs    privatedirs.Dirs
	binary  string
	command *executor.ExecCommand
	outputs outputs
	// confined states how package confine starts the task's processes, nil if they need no
	// confinement.
	confined *confined
	// cleanup are host paths to remove with the task.
	cleanup []string

	exec     executor.Executor
	executor *goplugin.Client
	launched bool
}

// Files in a task's state directory.
const (
	executorLogName = "executor.out"
	devicesName     = "devices.json"
)

// privateDirsOf returns the directories that root owns for a task.
func privateDirsOf(c *drivers.TaskConfig) privatedirs.Dirs {
	return privatedirs.New(c.AllocDir, filepath.Base(c.TaskDir().Dir))
}

// release closes the parts that only the start needs. If the start has failed, it also
// removes everything else.
func (e *environment) release(failed bool) {
	e.outputs.close()
	if !failed {
		return
	}
	if e.launched {
		_ = e.exec.Shutdown("", 0)
	}
	if e.executor != nil {
		e.executor.Kill()
	}
	for _, path := range e.cleanup {
		_ = os.RemoveAll(path)
	}
}

// prepare writes the agent's files and assembles its command.
func (e *environment) prepare() error {
	e.dirs = privateDirsOf(e.task)
	if err := e.dirs.Create(); err != nil {
		return err
	}
	if err := e.dirs.Sweep(); err != nil {
		e.logger.Warn("cannot remove what was kept for earlier allocations", "error", err)
	}
	if err := e.findBinary(); err != nil {
		return err
	}
	inTask := e.task.TaskDir().Dir // the path of the directory in the task
	if e.isolated() {
		inTask = "/"
	}
	e.plan.agent.Cgroup, e.plan.agent.Memory = cgroupOf(e.task).ID(), e.memory()
	if err := writeAgentFiles(e.plan, e.task.TaskDir().Dir, inTask, e.who); err != nil {
		return err
	}
	if err := e.noteUser(); err != nil {
		return err
	}
	env := e.personal(inTask)
	e.command = &executor.ExecCommand{
		Cmd:  e.binary,
		Args: []string{"agent"},
		Env:  e.plan.environment(env, filepath.Join(inTask, configPath)),
		User: e.task.User,
		// The executor looks for Cmd here first, and makes the file executable. So this
		// must not be the task's own directory.
		TaskDir:   e.dirs.Root,
		WorkDir:   e.task.TaskDir().Dir, // only the job's user may be able to enter the job's own
		Resources: e.task.Resources.Copy(),

		NetworkIsolation: e.task.NetworkIsolation,
	}
	e.confine()
	if e.isolated() {
		if err := e.isolate(); err != nil {
			return err
		}
	}
	if err := e.outputs.open(e.task.AllocDir, e.task.StdoutPath, e.task.StderrPath); err != nil {
		return err
	}
	e.command.StdoutPath, e.command.StderrPath = e.outputs.stdout, e.outputs.stderr
	return nil
}

// addListedDevices adds the devices that the plugin's configuration lists, unless the task
// has them already.
func (e *environment) addListedDevices() {
	paths, left := isolation.Devices("/", e.config.Devices)
	for _, why := range left {
		e.logger.Warn("tasks do not get a device that devices lists", "device", why)
	}
	for _, path := range paths {
		if !slices.ContainsFunc(e.command.Devices, func(d *drivers.DeviceConfig) bool { return d.TaskPath == path }) {
			e.command.Devices = append(e.command.Devices, &drivers.DeviceConfig{TaskPath: path, HostPath: path, Permissions: "rw"})
		}
	}
}

// memory returns the memory that the executor lets the task use, in bytes; 0 is no limit.
func (e *environment) memory() int64 {
	if r := e.task.Resources; e.isolated() && r != nil && r.NomadResources != nil {
		return max(r.NomadResources.Memory.MemoryMB, r.NomadResources.Memory.MemoryMaxMB) << 20
	}
	return 0
}

func (e *environment) isolated() bool { return e.plan.isolation == isolationExec }

// findBinary finds the driver's binary, which the task's user must be able to run.
func (e *environment) findBinary() (err error) {
	if e.binary, err = ownPath(); err != nil {
		return err
	}
	// An isolated task sees the binary regardless of the directory that it lies in.
	at := account.Path{Base: "/", Rel: e.binary[1:]}
	if e.isolated() {
		at = account.Path{Base: e.binary, Rel: "."}
	}
	if err := e.who.Executable(at); err != nil {
		return fmt.Errorf("user = %q: cannot run the driver's binary %s, which is also the agent (%w); make it and its directories accessible", e.task.User, e.binary, err)
	}
	return nil
}

// confine makes package confine start the agent if there are privileges to drop.
func (e *environment) confine() {
	if os.Geteuid() != 0 || !e.isolated() && e.who.UID == 0 {
		return
	}
	e.confined = &confined{Binary: e.binary, Identity: e.who.Identity(!e.isolated()), Alarms: true}
	if e.isolated() {
		e.confined.Binary = isolation.AgentPath
	}
	argv := e.confined.command([]string{e.confined.Binary, "agent"})
	e.command.Cmd, e.command.Args, e.command.User = argv[0], argv[1:], ""
	e.command.Env = confine.Environment(e.command.Env)
}

// isolate adds everything that a task in namespaces of its own needs.
func (e *environment) isolate() error {
	shm, err := e.dirs.MakeShm(e.who.UID, e.who.GID)
	if err != nil {
		return err
	}
	e.cleanup = append(e.cleanup, shm)
	address, err := e.serviceAddress()
	if err != nil {
		return err
	}
	files, err := isolation.NameService{DNS: e.task.DNS, OwnNetwork: e.network != nil, Address: hostnet.NameFor(address), User: e.who, Home: filepath.Join("/", homePath)}.Files(e.dirs)
	if err != nil {
		return err
	}
	root := isolation.Rootfs{
		Layout: isolation.Layout{TaskDir: e.task.TaskDir().Dir, AllocDir: e.task.AllocDir, BindPaths: e.config.BindPaths, Volumes: e.task.Mounts},
		Root:   e.dirs.Root, Binary: e.binary, Shm: shm, Files: files,
	}
	if e.command.Mounts, err = root.Build(); err != nil {
		return err
	}
	reservation := devnode.Reservation{Env: e.task.DeviceEnv, Given: e.task.Devices}
	if e.command.Devices, err = reservation.Devices(e.host, e.plan.gpus, filepath.Join(e.dirs.State, devicesName)); err != nil {
		return err
	}
	e.addListedDevices()
	e.command.Capabilities = confine.Capabilities()
	// For the user "root" the executor chooses its own capabilities, and it knows no
	// dynamic users. Package confine sets the user in any case.
	if e.command.User = e.who.Name; e.who.UID == 0 || e.who.Dynamic {
		e.command.User = ""
	}
	e.command.ResourceLimits = true
	e.command.NoPivotRoot = e.config.NoPivotRoot
	e.command.ModePID = executor.IsolationModePrivate
	e.command.ModeIPC = executor.IsolationModePrivate
	return nil
}
