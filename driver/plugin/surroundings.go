// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"path/filepath"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/account"
)

// surroundings is what validate may know of the machine and the task: plain
// data and a few questions, so that tests can answer them.
type surroundings struct {
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
	// throughLink says whether a host path below the task's directory leads
	// through a link.
	throughLink func(hostPath string) bool
	// ownNetwork says that the group is not in the host's network.
	ownNetwork bool
	// interfaces lists the network interfaces that the task will see.
	interfaces func() ([]string, error)
}

// view translates between the paths a task uses and those of the host.
type view struct {
	// cwd is the directory that the task's processes start in, base where relative
	// paths are looked up: the same directory, but in an isolated task by a name
	// that does not differ between allocations.
	cwd, base string
	// isolated says that the task has a root of its own.
	isolated bool
	// shown are the parts of the host that the task sees; where one lies in
	// another, the longer path wins.
	shown []shownPath
}

type shownPath struct{ task, host string }

// viewOf says what a task sees in the given isolation.
func viewOf(isolation string, s *surroundings) view {
	if isolation == isolationNone {
		return view{cwd: s.taskDir, base: s.taskDir, shown: []shownPath{{"/", "/"}}}
	}
	shared := filepath.Join(s.allocDir, sharedDir)
	v := view{cwd: s.taskDir, base: "/", isolated: true, shown: []shownPath{
		{"/", s.taskDir}, {s.taskDir, s.taskDir}, {"/alloc", shared}, {shared, shared},
	}}
	for _, path := range s.plugin.BindPaths {
		v.shown = append(v.shown, shownPath{path, path})
	}
	for _, m := range s.mounts {
		v.shown = append(v.shown, shownPath{m.TaskPath, m.HostPath})
	}
	return v
}

// locate finds the file that a task's path leads to, and says the absolute form
// of that path.
func (v view) locate(path string) (file account.Path, taskPath string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.base, path)
	}
	path = filepath.Clean(path)
	best := shownPath{}
	for _, s := range v.shown {
		if within(path, s.task) && len(s.task) >= len(best.task) {
			best = s
		}
	}
	rel, err := filepath.Rel(best.task, path)
	if err != nil { // cannot be: both are absolute
		return account.Path{Base: "/", Rel: path}, path
	}
	return account.Path{Base: best.host, Rel: rel}, path
}

// within says whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
