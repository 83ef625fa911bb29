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

func TestOOMKills(t *testing.T) {
	must.Eq(t, 2, oomKills([]byte("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 0\n")))
	must.Eq(t, 0, oomKills([]byte("low 0\noom_kill 0\n")))
	must.Eq(t, 0, oomKills(nil))
}
