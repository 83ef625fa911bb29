// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// TestWorkDir starts a task in a directory that its artifact brought, and in one behind a
// link, which is resolved as the task sees it.
func TestWorkDir(t *testing.T) {
	for _, isolation := range isolations(t) {
		for name, dir := range map[string]string{"directory": "local/repo", "link": "local/current", "task directory": ""} {
			t.Run(isolation+"/"+name, func(t *testing.T) {
				h := newHarness(t, noIsolation())
				c := newTaskConfig(t, isolation, "")
				inTask := c.TaskDir().Dir
				if isolation == isolationExec && dir != "" {
					inTask = "/"
				}
				must.NoError(t, os.Mkdir(filepath.Join(c.TaskDir().LocalDir, "repo"), 0o755))
				for _, at := range []string{c.TaskDir().Dir, filepath.Join(c.TaskDir().LocalDir, "repo")} {
					must.NoError(t, os.WriteFile(filepath.Join(at, "python.sh"), []byte("#!/bin/sh\n. ./$1\n"), 0o755))
					must.NoError(t, os.WriteFile(filepath.Join(at, "main.py"), []byte("pwd -P\n"), 0o644))
				}
				must.NoError(t, os.Symlink(filepath.Join(inTask, "local/repo"), filepath.Join(c.TaskDir().LocalDir, "current")))
				must.NoError(t, c.EncodeConcreteDriverConfig(map[string]any{
					"command": "./python.sh", "args": []string{"main.py"}, "isolation": isolation, "service": "ring", "work_dir": dir,
				}))
				h.start(t, c)
				must.True(t, h.end(t, c.ID).Successful(), must.Sprint(output(t, c)))
				want := inTask
				if dir != "" {
					want = filepath.Join(inTask, "local/repo")
				}
				must.Eq(t, want+"\n", output(t, c))
			})
		}
	}
}

// TestWorkDirBehindALink: the target of a task's link is looked up as the task sees it, so
// that its event reveals nothing of the client.
func TestWorkDirBehindALink(t *testing.T) {
	isolated(t)
	for _, target := range []string{"/root", "/var/lib", "/no/such/place"} {
		h := newHarness(t, noIsolation())
		c := newTaskConfig(t, isolationExec, "")
		must.NoError(t, os.Symlink(target, filepath.Join(c.TaskDir().LocalDir, "out")))
		must.NoError(t, c.EncodeConcreteDriverConfig(map[string]any{
			"command": "/bin/sh", "args": []string{"-c", "pwd"}, "isolation": isolationExec, "service": "ring", "work_dir": "local/out",
		}))
		_, _, err := h.StartTask(c)
		must.ErrorContains(t, err, `work_dir = "local/out": leads to `+target+", no such directory in the task's isolated file system")
	}
}
