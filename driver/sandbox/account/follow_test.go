// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
)

// The task sees the client's /task as its root, and the client's /opt in it.
func TestFollow(t *testing.T) {
	locate := func(path string) (Path, bool) {
		if rel, below := strings.CutPrefix(path, "/opt"); below {
			return Path{"/opt", strings.TrimPrefix(rel, "/")}, rel == ""
		}
		return Path{"/task", path[1:]}, false
	}
	files := map[string]string{ // of the client, with what a link leads to
		"/task/local": "", "/task/local/repo": "", "/task/local/repo/main.py": "", "/task/local/current": "repo",
		"/task/local/up": "../local/current", "/task/local/root": "/", "/task/local/out": "/root/secret", "/task/local/python": "/opt/venv/python",
		"/task/local/loop": "loop", "/task/local/closed": "/opt/closed/python",
		"/opt/venv": "", "/opt/venv/python": "../lib/python3", "/opt/lib": "", "/opt/lib/python3": "python3.13", "/opt/lib/python3.13": "", "/opt/closed": "",
		"/root": "", "/root/secret": "",
	}
	link := func(file Path) (string, error) {
		path := filepath.Join(file.Base, file.Rel)
		target, there := files[path]
		switch {
		case filepath.Dir(path) == "/opt/closed":
			return "", syscall.EACCES
		case !there:
			return "", syscall.ENOENT
		}
		return target, nil
	}
	for path, want := range map[string]struct{ end, err string }{
		"/local/repo/main.py":       {end: "/local/repo/main.py"},
		"/local/current/main.py":    {end: "/local/repo/main.py"},
		"/local/up/../current":      {end: "/local/repo"},
		"/local/root/local/repo":    {end: "/local/repo"},
		"/local/python":             {end: "/opt/lib/python3.13"},
		"/opt/venv/python":          {end: "/opt/lib/python3.13"},
		"/opt":                      {end: "/opt"},
		"/":                         {end: "/"},
		"/local/missing/main.py":    {"/local/missing/main.py", "open /local/missing/main.py: no such file or directory"},
		"/local/out/x":              {"/root/secret/x", "open /root/secret/x: no such file or directory"},
		"/local/closed":             {"/opt/closed/python", "enter /opt/closed: permission denied"},
		"/opt/closed/lib/../x/y":    {"/opt/closed/x/y", "enter /opt/closed: permission denied"},
		"/local/loop/main.py":       {"/local/loop/main.py", "open /local/loop/main.py: too many levels of symbolic links"},
		"/local/../../../etc/hosts": {"/etc/hosts", "open /etc/hosts: no such file or directory"},
	} {
		end, err := Follow(path, locate, link)
		must.Eq(t, want.end, end, must.Sprint(path))
		if want.err == "" {
			must.NoError(t, err, must.Sprint(path))
		} else {
			must.EqError(t, err, want.err)
		}
	}
}

// The path is a link in an environment that is open to everyone, and leads to a Python in
// root's home.
func TestFollowWithTheRightsOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	nobody, err := Lookup("nobody")
	must.NoError(t, err)
	dir := openDir(t)
	home, python := filepath.Join(dir, "home"), filepath.Join(dir, "home/pyenv/bin/python3")
	must.NoError(t, os.MkdirAll(filepath.Dir(python), 0o755))
	must.NoError(t, os.WriteFile(python, nil, 0o755))
	must.NoError(t, os.Symlink(python, filepath.Join(dir, "python")))
	locate := func(path string) (Path, bool) { return Path{"/", strings.TrimPrefix(path, "/")}, false }
	follow := func() (string, error) { return Follow(filepath.Join(dir, "python"), locate, nobody.Link) }
	end, err := follow()
	must.NoError(t, err)
	must.Eq(t, python, end)
	must.NoError(t, os.Chmod(home, 0o700))
	end, err = follow()
	must.ErrorIs(t, err, fs.ErrPermission)
	must.EqError(t, err, "enter "+home+": permission denied")
	must.Eq(t, python, end)
}
