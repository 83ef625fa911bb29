// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package privatedirs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// newDirs returns the directories of a task whose allocation has one.
func newDirs(t *testing.T) Dirs {
	t.Helper()
	alloc := filepath.Join(t.TempDir(), "alloc-id")
	must.NoError(t, os.Mkdir(alloc, 0o755))
	d := New(alloc, "train")
	t.Cleanup(func() {
		if shm := d.ownShmDir(); shm != "" {
			_ = os.RemoveAll(shm)
		}
	})
	return d
}

// The events of a restarted task are passed on from the first one, even if the file has
// grown as long as in its earlier run before the plugin looks.
func TestARunDoesNotCountTheEventsOfAnEarlierOne(t *testing.T) {
	dirs := newDirs(t)
	must.NoError(t, dirs.Create())
	note, err := dirs.Write(EventOffset, []byte("20"))
	must.NoError(t, err)
	must.NoError(t, dirs.CreateState()) // a recovered task goes on
	_, err = os.Stat(note)
	must.NoError(t, err)
	must.NoError(t, dirs.Create())
	_, err = os.Stat(filepath.Join(dirs.State, EventOffset))
	must.ErrorIs(t, err, os.ErrNotExist)
}

func TestRemoveTreeSparesMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "with space")
	must.NoError(t, os.Mkdir(dir, 0o755))
	must.NoError(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(dir, 0)) })
	must.NoError(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
	must.ErrorContains(t, removeTree(dir), "something is mounted")
	must.FileExists(t, filepath.Join(dir, "precious"))
}

func TestSweepRemovesWhatRemovedAllocationsUsed(t *testing.T) {
	dirs := newDirs(t)
	must.NoError(t, dirs.Create())
	shm, err := dirs.MakeShm(os.Geteuid(), os.Getegid())
	must.NoError(t, err)
	must.NoError(t, dirs.Sweep())
	must.DirExists(t, shm)
	must.NoError(t, os.RemoveAll(filepath.Join(dirs.allocs, filepath.Base(filepath.Dir(dirs.Root)))))
	must.NoError(t, dirs.Sweep())
	for _, dir := range []string{shm, dirs.Root, dirs.State} {
		must.DirNotExists(t, filepath.Dir(dir))
	}
}

// TestSharedMemoryCannotBeTaken has a user of the client who creates the driver's directory
// first.
func TestSharedMemoryCannotBeTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dirs := newDirs(t)
	must.NoError(t, dirs.Create())
	taken, err := dirs.shmDir()
	must.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(taken) })
	again, err := dirs.shmDir()
	must.NoError(t, err)
	must.Eq(t, taken, again)
	must.NoError(t, os.Chown(taken, 65534, 65534))
	other, err := dirs.shmDir()
	must.NoError(t, err)
	must.NotEq(t, taken, other)
}

// TestSweepFollowsNoLink has a link in place of that directory.
func TestSweepFollowsNoLink(t *testing.T) {
	dirs := newDirs(t)
	must.NoError(t, dirs.Create())
	dir, err := dirs.shmDir()
	must.NoError(t, err)
	must.NoError(t, os.Remove(dir))
	host := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(host, "precious"), 0o755))
	must.NoError(t, os.Symlink(host, dir))
	t.Cleanup(func() { _ = os.Remove(dir) })
	must.NoError(t, dirs.Sweep())
	must.DirExists(t, filepath.Join(host, "precious"))
}
