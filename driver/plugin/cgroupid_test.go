// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func TestCgroupID(t *testing.T) {
	dir := t.TempDir()
	c := &drivers.TaskConfig{}
	must.Eq(t, 0, cgroupID(c), must.Sprint("no resources"))
	c.Resources = &drivers.Resources{LinuxResources: &drivers.LinuxResources{CpusetCgroupPath: dir}}
	must.Eq(t, 0, cgroupID(c), must.Sprint("version 1, which other tasks may share"))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.kill"), nil, 0o600))
	var info unix.Stat_t
	must.NoError(t, unix.Stat(dir, &info))
	must.Eq(t, info.Ino, cgroupID(c))
}
