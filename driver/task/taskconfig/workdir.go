// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// workDir is the setting's name, the same as in Nomad's docker driver.
const workDir = "work_dir"

// checkPath checks a working directory as far as that is possible without the client.
func checkPath(path string) error {
	switch {
	case strings.ContainsRune(path, 0):
		return errors.New("has a zero byte")
	case !filepath.IsAbs(path) && !filepath.IsLocal(path):
		return problem.Problem{Text: "leads out of the task's directory", Remedy: "use an absolute path for a directory on a volume"}
	}
	return nil
}

// enterWorkDir decides which directory slots start in, and returns the surroundings as seen
// from there. found is false if slots can't start in it.
func enterWorkDir(p *problem.List, a *config.Config, s *Surroundings) (from *Surroundings, found bool) {
	given := a.Dir
	if given == "" {
		a.Dir = s.Dir
		return s, true
	}
	if checkPath(given) != nil {
		return s, false // reported with the settings
	}
	const field = "config." + workDir
	a.Dir = s.Locate(given)
	switch err := s.Enterable(a.Dir); {
	case errors.Is(err, fs.ErrNotExist):
		p.Add(field, given, leads(a.Dir, err)+"no such directory"+s.Hidden, "bring it with an artifact or volume_mount block")
		return s, false
	case errors.Is(err, syscall.ENOTDIR):
		p.Add(field, given, "is not a directory", "name the one that holds it")
		return s, false
	case err != nil:
		p.Add(field, given, fmt.Sprintf("the task's user %q cannot enter it (%v)", s.User, err), access(err))
		return s, false
	}
	there := *s
	there.Dir, there.below = a.Dir, " below "+workDir
	there.Locate = func(path string) string {
		if !filepath.IsAbs(path) {
			path = filepath.Join(a.Dir, path)
		}
		return s.Locate(path)
	}
	return &there, true
}

// belowDir returns an addition to messages about a path that is looked up in the working
// directory.
func (s *Surroundings) belowDir(path string) string {
	if filepath.IsAbs(path) {
		return ""
	}
	return s.below
}
