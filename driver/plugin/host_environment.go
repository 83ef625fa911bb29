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

// hostEnvironment is what validate knows about the machine and the task. It consists of
// plain data and a few functions, so that tests can fake it.
type hostEnvironment struct {
	plugin *Config
	// env is the task's environment, and devices the part of it that comes from Nomad's
	// devices; the directories are paths on the host.
	env, devices                  map[string]string
	taskDir, allocDir, secretsDir string
	mounts                        []*drivers.MountConfig

	// execIsolation is nil if this machine can isolate tasks.
	execIsolation error
	// exists reports whether a host path exists, even as a broken link.
	exists func(hostPath string) bool
	// user is the task's user. readable returns nil if that user may read a file,
	// executable if the user may run it, and enterable if the user may start in a
	// directory.
	user                            string
	readable, executable, enterable func(account.Path) error
	// link returns the target of a link, "" for a file that is not a link.
	link func(account.Path) (target string, err error)
	// network is the group's own, nil if the group uses the host's.
	network *groupNetwork
	// interfaces returns the network interfaces that the task will see.
	interfaces func() ([]string, error)
}

// layout returns what an isolated task sees of the host.
func (s *hostEnvironment) layout() isolation.Layout {
	return isolation.Layout{TaskDir: s.taskDir, AllocDir: s.allocDir, BindPaths: s.plugin.BindPaths, Volumes: s.mounts}
}

// surroundings returns the part of it that package taskconfig needs, as the task sees it.
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
		// No one else is in that network, and it has other interfaces than the client.
		out.OwnNetwork, out.Interface = true, ""
	}
	if v.Isolated {
		out.Hidden = " in the task's isolated file system (bind_paths in the config of " + s.plugin.block + " says what of the host is in it)"
		out.Secrets = "/secrets" // short: a socket's path must stay below 108 bytes
	}
	return out
}

// asks returns a function that checks a path of the task. It resolves links as the task
// would: on the client, a link may lead elsewhere.
func (s *hostEnvironment) asks(v isolation.View, may func(account.Path) error) func(path string) error {
	return func(path string) error {
		end, err := v.Follow(path, s.link)
		if end == path && !errors.Is(err, fs.ErrPermission) {
			err = nil // the check itself gives a better error then
		}
		if err != nil {
			return err
		}
		at, _ := v.Locate(end)
		return may(at)
	}
}

// readHostEnvironment collects from this machine what validate needs.
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
