// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func TestID(t *testing.T) {
	dir := t.TempDir()
	must.Eq(t, 0, At("").ID(), must.Sprint("no cgroup"))
	must.Eq(t, 0, At(dir).ID(), must.Sprint("version 1, which other tasks may share"))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.kill"), nil, 0o600))
	var info unix.Stat_t
	must.NoError(t, unix.Stat(dir, &info))
	must.Eq(t, info.Ino, At(dir).ID())
}

// The file is that of the process's cgroup, of either version, or of the container if no
// other is visible.
func TestOOMFile(t *testing.T) {
	for name, tc := range map[string]struct{ own, file, want string }{
		"version 2":    {"0::/nomad.slice/a.scope\n", "nomad.slice/a.scope/memory.events", "nomad.slice/a.scope/memory.events"},
		"version 1":    {"5:pids:/\n4:cpu,memory:/a\n0::/\n", "memory/a/memory.oom_control", "memory/a/memory.oom_control"},
		"in container": {"0::/nomad.slice/a.scope\n", "memory.events", "memory.events"},
		"none":         {"5:pids:/\n0::/\n", "memory/a/memory.oom_control", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			own, file := filepath.Join(root, "own"), filepath.Join(root, tc.file)
			must.NoError(t, os.WriteFile(own, []byte(tc.own), 0o600))
			must.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			must.NoError(t, os.WriteFile(file, []byte("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 0o600))
			got := oomFile(own, root)
			if tc.want == "" {
				must.Eq(t, "", got)
				must.Zero(t, OOMKills(got))
				return
			}
			must.Eq(t, file, got)
			must.Eq(t, 3, OOMKills(got))
		})
	}
}

func TestOOMKills(t *testing.T) {
	must.Eq(t, 2, oomKills([]byte("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 0\n")))
	must.Eq(t, 0, oomKills([]byte("low 0\noom_kill 0\n")))
	must.Eq(t, 0, oomKills(nil))
}
