// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
)

// Layout is what an isolated task sees of the client, besides what is made for it.
type Layout struct {
	// TaskDir and AllocDir are Nomad's directories on the client.
	TaskDir, AllocDir string
	// BindPaths are shown read-only, under their own names.
	BindPaths []string
	// Volumes are the mounts of the job and of its devices.
	Volumes []*drivers.MountConfig
}

// View translates between the paths a task uses and those of the client.
type View struct {
	// CWD is the directory that the task's processes start in.
	CWD string
	// Isolated states that the task has a root of its own.
	Isolated bool

	// base is where relative paths are looked up: CWD, but in an isolated task by a
	// name that does not differ between allocations.
	base string
	// shown are the parts of the client that the task sees; where one lies in
	// another, the longer path wins.
	shown []shownPath
}

type shownPath struct{ task, host string }

// HostView is what a task without isolation sees.
func HostView(taskDir string) View {
	return View{CWD: taskDir, base: taskDir, shown: []shownPath{{"/", "/"}}}
}

// View is what an isolated task sees.
func (l Layout) View() View {
	shared := filepath.Join(l.AllocDir, sharedDir)
	v := View{CWD: l.TaskDir, base: "/", Isolated: true, shown: []shownPath{
		{"/", l.TaskDir}, {l.TaskDir, l.TaskDir}, {"/" + sharedDir, shared}, {shared, shared},
	}}
	for _, path := range l.BindPaths {
		v.shown = append(v.shown, shownPath{path, path})
	}
	for _, m := range l.Volumes {
		v.shown = append(v.shown, shownPath{m.TaskPath, m.HostPath})
	}
	return v
}

// Locate finds the file that a task's path leads to, and returns the absolute form
// of that path.
func (v View) Locate(path string) (file account.Path, taskPath string) {
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

// Follow follows the links of a task's path in what the task sees; see account.Follow.
func (v View) Follow(path string, link func(account.Path) (string, error)) (end string, err error) {
	_, path = v.Locate(path)
	return account.Follow(path, func(path string) (account.Path, bool) {
		at, _ := v.Locate(path)
		given := slices.ContainsFunc(v.shown, func(s shownPath) bool { return s.task != "/" && within(s.task, path) })
		return at, given
	}, link)
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
