// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"io/fs"
	"os"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/sandbox/account"
	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// hostEnvironment is what validate may know of the machine and the task: plain
// data and a few questions, so that tests can answer them.
type hostEnvironment struct {
	plugin *Config
	// env is the task's environment, devices the part of it that Nomad's devices
	// gave; the directories are paths on the host.
	env, devices                  map[string]string
	taskDir, allocDir, secretsDir string
	mounts                        []*drivers.MountConfig

	// execIsolation is nil when this machine can isolate tasks.
	execIsolation error
	// exists reports whether a host path is there, be it as a link that leads nowhere.
	exists func(hostPath string) bool
	// user is the task's, readable is nil when that user may read a file, executable
	// when it may run it, enterable when it may start in a directory.
	user                            string
	readable, executable, enterable func(account.Path) error
	// link returns what a link leads to, "" for a file that is none.
	link func(account.Path) (target string, err error)
	// network is the group's own, nil where it is in the host's.
	network *groupNetwork
	// interfaces lists the network interfaces that the task will see.
	interfaces func() ([]string, error)
}

// layout is what the task sees of the host where it is isolated.
func (s *hostEnvironment) layout() isolation.Layout {
	return isolation.Layout{TaskDir: s.taskDir, AllocDir: s.allocDir, BindPaths: s.plugin.BindPaths, Volumes: s.mounts}
}

// surroundings is what package taskconfig may know of it, by what the task sees.
func (s *hostEnvironment) surroundings(v isolation.View) *taskconfig.Surroundings {
	out := &taskconfig.Surroundings{
		Env: s.env, Devices: s.devices, Dir: v.CWD,
		Locate:     func(path string) string { _, inTask := v.Locate(path); return inTask },
		User:       s.user,
		Readable:   s.asks(v, s.readable),
		Executable: s.asks(v, s.executable),
		Enterable:  s.asks(v, s.enterable),
		Secrets:    s.secretsDir, SecretsOnClient: s.secretsDir, Exists: s.exists,
		Interface: s.plugin.Interface, InterfaceOf: s.plugin.block, Interfaces: s.interfaces,
	}
	if s.network != nil {
		// Nobody else is in that network, and it has other interfaces than the client.
		out.OwnNetwork, out.Interface = true, ""
	}
	if v.Isolated {
		out.Hidden = " in the task's isolated file system (bind_paths in the config of " + s.plugin.block + " says what of the host is in it)"
		out.Secrets = "/secrets" // short: a socket's path must stay below 108 bytes
	}
	return out
}

// asks returns a question about a path of the task. A link means what it means to the
// task: the client, where it may lead elsewhere, is not asked about it.
func (s *hostEnvironment) asks(v isolation.View, may func(account.Path) error) func(path string) error {
	return func(path string) error {
		end, err := v.Follow(path, s.link)
		if end == path && !errors.Is(err, fs.ErrPermission) {
			err = nil // without links, it has a better answer
		}
		if err != nil {
			return err
		}
		at, _ := v.Locate(end)
		return may(at)
	}
}

// readHostEnvironment asks this machine what validate wants to know.
func readHostEnvironment(config *Config, c *drivers.TaskConfig, who account.Account) *hostEnvironment {
	dir := c.TaskDir()
	network := networkOf(c)
	s := &hostEnvironment{
		plugin: config, env: c.Env, devices: c.DeviceEnv, mounts: c.Mounts,
		taskDir: dir.Dir, allocDir: c.AllocDir, secretsDir: dir.SecretsDir,
		execIsolation: canIsolate(),
		exists:        func(path string) bool { _, err := os.Lstat(path); return err == nil },
		user:          who.Name, readable: who.Readable, executable: who.Executable, enterable: who.Enterable, link: who.Link,
		network:    network,
		interfaces: hostnet.Interfaces,
	}
	if network != nil {
		s.interfaces = func() ([]string, error) { return network.Interfaces, network.err }
	}
	return s
}
