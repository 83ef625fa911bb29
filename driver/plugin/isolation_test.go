// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
)

// ran returns the output of an isolated task that ran to its end.
func ran(t *testing.T, config *Config, c *drivers.TaskConfig) string {
	t.Helper()
	h := newHarness(t, config)
	h.start(t, c)
	r := h.end(t, c.ID)
	must.True(t, r.Successful(), must.Sprintf("%+v: %s", r, output(t, c)))
	must.NoError(t, h.DestroyTask(c.ID, false))
	return output(t, c)
}

// TestIsolatedTaskWritesItsOwn checks where an isolated task may write: in its
// directories, by any of their names, and not next to them.
func TestIsolatedTaskWritesItsOwn(t *testing.T) {
	isolated(t)
	c := newTaskConfig(t, isolationExec, `
		echo 1 > relative && cat "$NOMAD_TASK_DIR/../relative"
		echo 2 > local/x && cat /local/x
		echo 3 > /tmp/x && cat tmp/x
		echo 4 > /alloc/data && cat "$NOMAD_ALLOC_DIR/data"
		cat /artifact/file
		for dir in / /etc /.kolo /alloc/logs "$NOMAD_ALLOC_DIR/logs"; do
			touch "$dir/x" 2>/dev/null && echo wrote to $dir
		done
		ls /etc/passwd /.kolo`)
	c.Env["NOMAD_ALLOC_DIR"] = c.TaskDir().SharedAllocDir
	must.NoError(t, os.Mkdir(filepath.Join(c.TaskDir().Dir, "artifact"), 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(c.TaskDir().Dir, "artifact/file"), []byte("5\n"), 0o644))
	must.Eq(t, "1\n2\n3\n4\n5\n/etc/passwd\n\n/.kolo:\nnomad-driver\n", ran(t, noIsolation(), c))
	must.FileExists(t, filepath.Join(c.TaskDir().Dir, "relative"))
}

// openTempDir returns a directory that every user may write to.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		must.NoError(t, os.Chmod(p, 0o755))
	}
	must.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

func TestIsolatedTaskHasItsVolumes(t *testing.T) {
	isolated(t)
	volume := openTempDir(t)
	c := newTaskConfig(t, isolationExec, `echo x > /volumes/data/x; echo y > local/data/y; cat /volumes/data/y; touch /volumes/fixed/x 2>/dev/null || echo read-only`)
	c.Mounts = []*drivers.MountConfig{
		{TaskPath: "/volumes/data", HostPath: volume},
		{TaskPath: "local/data", HostPath: volume},
		{TaskPath: "/volumes/fixed", HostPath: volume, Readonly: true},
	}
	must.Eq(t, "y\nread-only\n", ran(t, noIsolation(), c))
	must.FileExists(t, filepath.Join(volume, "x"))
}

// TestAllowRoot makes sure that root in a container has no power beyond its name.
func TestAllowRoot(t *testing.T) {
	isolated(t)
	config := noIsolation()
	config.AllowRoot = true
	c := newTaskConfig(t, isolationExec, `id -u; echo "$USER $HOME"; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; mount -t tmpfs none /tmp 2>/dev/null && echo mounted; touch /usr/x /etc/x 2>/dev/null && echo wrote; true`)
	c.User = "root"
	must.Eq(t, "0\nroot /local/kolo/home\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\n", ran(t, config, c))
}

func TestUserByNumber(t *testing.T) {
	isolated(t)
	nobody, err := account.Lookup("nobody")
	must.NoError(t, err)
	c := newTaskConfig(t, isolationExec, `id -un`)
	c.User = "65534"
	if nobody.UID != 65534 {
		t.Skip("nobody has another uid here")
	}
	must.Eq(t, "nobody\n", ran(t, noIsolation(), c))
}

// TestRecoveredTaskIsStillConfined runs commands, started by a second plugin, next
// to a task of the first plugin.
func TestRecoveredTaskIsStillConfined(t *testing.T) {
	isolated(t)
	first := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `exec sleep 1000`)
	handle := first.start(t, c)
	first.kill()
	second := newHarness(t, noIsolation())
	must.NoError(t, second.RecoverTask(handle))
	t.Cleanup(func() { _ = second.driver.DestroyTask(c.ID, true) })
	r, err := second.ExecTask(c.ID, []string{"sh", "-c", `id -un; id -gn; grep CapBnd /proc/self/status; echo "$NOMAD_JOB_ID"`}, patience)
	must.NoError(t, err)
	must.Eq(t, "nobody\nnogroup\nCapBnd:\t0000000000000000\njob\n", strings.ReplaceAll(string(r.Stdout), "\nnobody\nCap", "\nnogroup\nCap"))
}

// TestReplacedDirectoryIsNotBound has a task that replaces its local directory by a
// link, to see more of the host after a restart.
func TestReplacedDirectoryIsNotBound(t *testing.T) {
	isolated(t)
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `ls /tmp`)
	must.NoError(t, os.RemoveAll(filepath.Join(c.TaskDir().Dir, "tmp")))
	must.NoError(t, os.Symlink("/root", filepath.Join(c.TaskDir().Dir, "tmp")))
	_, _, err := h.StartTask(c)
	must.ErrorContains(t, err, "the task has replaced this directory")
}

// TestLinkOnTheWayToAMountIsNotFollowed has an alloc_dir below /tmp, as an agent in
// development mode has: the task's directory is mounted in its own tmp.
func TestLinkOnTheWayToAMountIsNotFollowed(t *testing.T) {
	isolated(t)
	c := newTaskConfig(t, isolationExec, `ls /etc/ld.so.preload`)
	dir := c.TaskDir().Dir
	if !strings.HasPrefix(dir, "/tmp/") {
		t.Skip("the test's directory does not lie below /tmp")
	}
	for name, path := range map[string]string{"task directory": dir, "shared directory": c.TaskDir().SharedAllocDir} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			tmp := filepath.Join(dir, "tmp")
			way := filepath.Join(tmp, strings.TrimPrefix(path, "/tmp"))
			must.NoError(t, os.MkdirAll(filepath.Dir(way), 0o755))
			must.NoError(t, os.Symlink("/etc", way))
			t.Cleanup(func() { _ = os.Remove(way) })
			_, _, err := h.StartTask(c)
			must.ErrorContains(t, err, "the task has made a link on the way there")
		})
	}
}

// TestAncestorMayTakeSockets checks, without any capability, what the agent does
// with its slots' sockets when a ring breaks (package agent, breakSockets).
func TestAncestorMayTakeSockets(t *testing.T) {
	isolated(t)
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("no " + python)
	}
	c := newTaskConfig(t, isolationExec, `exec `+python+` -c '
import ctypes, os, socket, subprocess, sys
a, b = socket.socketpair()
child = subprocess.Popen(["sleep", "1000"], pass_fds=[a.fileno()])
pidfd = os.pidfd_open(child.pid)
fd = ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, a.fileno(), 0)  # pidfd_getfd
print("taken" if fd >= 0 else os.strerror(ctypes.get_errno()))
child.kill()
'`)
	must.Eq(t, "taken\n", ran(t, noIsolation(), c))
}
