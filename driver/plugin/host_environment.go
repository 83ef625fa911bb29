// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/account"
	"github.com/kolo-nomad/kolo/driver/isolation"
)

// hostEnvironment is what validate may know of the machine and the task: plain
// data and a few questions, so that tests can answer them.
type hostEnvironment struct {
	plugin *Config
	// env is the task's environment, devices the part of it that Nomad's devices
	// gave, taskDir, allocDir, localDir and secretsDir
	// are paths on the host.
	env, devices                            map[string]string
	taskDir, allocDir, localDir, secretsDir string
	mounts                                  []*drivers.MountConfig

	// execIsolation is nil when this machine can isolate tasks.
	execIsolation error
	// exists says whether a host path is there, be it as a link that leads nowhere.
	exists func(hostPath string) bool
	// user is the task's, readable is nil when that user may read a file,
	// executable when it may run it.
	user                 string
	readable, executable func(account.Path) error
	// ownNetwork says that the group is not in the host's network.
	ownNetwork bool
	// interfaces lists the network interfaces that the task will see.
	interfaces func() ([]string, error)
}

// layout is what the task sees of the host where it is isolated.
func (s *hostEnvironment) layout() isolation.Layout {
	return isolation.Layout{TaskDir: s.taskDir, AllocDir: s.allocDir, BindPaths: s.plugin.BindPaths, Volumes: s.mounts}
}
