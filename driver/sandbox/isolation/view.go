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

// Layout holds the parts of the client that an isolated task sees.
type Layout struct {
	// TaskDir and AllocDir are Nomad's directories on the client.
	TaskDir, AllocDir string
	// BindPaths are shown read-only, under their own names.
	BindPaths []string
	// Volumes are the mounts of the job and of its devices.
	Volumes []*drivers.MountConfig
}

// View translates a task's paths to paths on the client.
type View struct {
	// CWD is the directory in which the task's processes start.
	CWD string
	// Isolated states that the task has a root directory of its own.
	Isolated bool

	// base is the directory that relative paths start from. It is CWD, except that in an
	// isolated task its name is the same in every allocation.
	base string
	// shown are the parts of the client that the task sees. If one lies in another, the
	// longer path wins.
	shown []shownPath
}

type shownPath struct{ task, host string }

// HostView returns the view of a task without isolation.
func HostView(taskDir string) View {
	return View{CWD: taskDir, base: taskDir, shown: []shownPath{{"/", "/"}}}
}

// View returns the view of an isolated task.
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

// Locate returns where on the client a task's path lies. It also returns the absolute
// form of the task's path.
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
	if err != nil { // cannot happen: both are absolute
		return account.Path{Base: "/", Rel: path}, path
	}
	return account.Path{Base: best.host, Rel: rel}, path
}

// Follow resolves the links of a task's path as the task sees it; see account.Follow.
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
