// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// The events of a task that starts again are passed on from the first, also when
// they are as long as those of its earlier run before the plugin looks.
func TestARunDoesNotCountTheEventsOfAnEarlierOne(t *testing.T) {
	dirs := privateDirsOf(newTaskConfig(t, isolationNone, `true`))
	must.NoError(t, dirs.create())
	note, err := dirs.write(offsetName, []byte("20"))
	must.NoError(t, err)
	must.NoError(t, dirs.createState()) // a recovered task goes on
	_, err = os.Stat(note)
	must.NoError(t, err)
	must.NoError(t, dirs.create())
	_, err = os.Stat(filepath.Join(dirs.state, offsetName))
	must.ErrorIs(t, err, os.ErrNotExist)
}

func TestRemoveTreeSparesMounts(t *testing.T) {
	isolated(t)
	dir := filepath.Join(t.TempDir(), "with space")
	must.NoError(t, os.Mkdir(dir, 0o755))
	must.NoError(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(dir, 0)) })
	must.NoError(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
	must.ErrorContains(t, removeTree(dir), "something is mounted")
	must.FileExists(t, filepath.Join(dir, "precious"))
}
