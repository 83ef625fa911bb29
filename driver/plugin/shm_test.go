// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/account"
)

// TestTaskThatIsNotRecoveredLeavesNothing is about a task whose executor has ended
// while no driver ran.
func TestTaskThatIsNotRecoveredLeavesNothing(t *testing.T) {
	isolated(t)
	first := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `echo x > /dev/shm/x; echo ready; exec sleep 1000`)
	handle := first.start(t, c)
	eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "ready") })
	running, err := first.driver.task(c.ID)
	must.NoError(t, err)
	first.kill()
	running.executor.Kill()
	<-running.done
	shm := running.cleanup[0]
	must.FileExists(t, filepath.Join(shm, "x"))
	must.Error(t, newHarness(t, noIsolation()).RecoverTask(handle))
	must.DirNotExists(t, shm)
	must.DirNotExists(t, privateDirsOf(c).root)
}

func TestSweepRemovesWhatRemovedAllocationsUsed(t *testing.T) {
	dirs := privateDirsOf(newTaskConfig(t, isolationNone, `true`))
	must.NoError(t, dirs.create())
	shm, err := dirs.makeShm(account.Account{UID: os.Geteuid(), GID: os.Getegid()})
	must.NoError(t, err)
	must.NoError(t, dirs.sweep())
	must.DirExists(t, shm)
	must.NoError(t, os.RemoveAll(filepath.Join(dirs.allocs, filepath.Base(filepath.Dir(dirs.root)))))
	must.NoError(t, dirs.sweep())
	for _, dir := range []string{shm, dirs.root, dirs.state} {
		must.DirNotExists(t, filepath.Dir(dir))
	}
}

// TestSharedMemoryCannotBeTaken is about a user of the host who makes the directory
// first that the driver would.
func TestSharedMemoryCannotBeTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dirs := privateDirsOf(newTaskConfig(t, isolationNone, `true`))
	must.NoError(t, dirs.create())
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

// TestSweepFollowsNoLink is about a link in place of that directory.
func TestSweepFollowsNoLink(t *testing.T) {
	dirs := privateDirsOf(newTaskConfig(t, isolationNone, `true`))
	must.NoError(t, dirs.create())
	dir, err := dirs.shmDir()
	must.NoError(t, err)
	must.NoError(t, os.Remove(dir))
	host := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(host, "precious"), 0o755))
	must.NoError(t, os.Symlink(host, dir))
	t.Cleanup(func() { _ = os.Remove(dir) })
	must.NoError(t, dirs.sweep())
	must.DirExists(t, filepath.Join(host, "precious"))
}
