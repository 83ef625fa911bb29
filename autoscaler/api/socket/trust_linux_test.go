// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// plant listens at a path with the rights of another user: those of a thread,
// which ends with them.
func plant(t *testing.T, uid int, path string) {
	type result struct {
		l   net.Listener
		err error
	}
	made := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			made <- result{err: errno}
			return
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		made <- result{l, err}
	}()
	r := <-made
	must.NoError(t, r.err)
	t.Cleanup(func() { _ = r.l.Close() })
}

// Other users have created sockets at the paths where a command looks for an autoscaler.
// The command would send its token to them.
func TestPlaces_TrustsOwnersOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("requires root, to be another user")
	}
	const other = 65534
	for name, tc := range map[string]struct {
		uid      int // of the command
		system   bool
		owner    int // of the directory
		listener int
		found    bool
	}{
		"root, in the runtime directory of a user": {0, false, other, other, false},
		"root, its own":                           {0, false, 0, 0, true},
		"root, of whom root gave the place to":    {0, true, other, other, true},
		"root, of another than the place is of":   {0, true, 0, other, false},
		"a user, of another":                      {4711, false, other, other, false},
		"a user, of root":                         {4711, true, 0, 0, true},
		"a member of the autoscaler's group":      {4711, true, other, other, true},
		"a user, of another than the place is of": {4711, true, 0, other, false},
	} {
		t.Run(name, func(t *testing.T) {
			top, err := os.MkdirTemp("", "kolo")
			must.NoError(t, err)
			defer os.RemoveAll(top)
			must.NoError(t, os.Chmod(top, 0o755))
			p := Places{UID: tc.uid, System: filepath.Join(top, "system"), Runtime: filepath.Join(top, "user")}
			dir := filepath.Join(p.Runtime, "kolo")
			if tc.system {
				dir = p.System
			}
			must.NoError(t, os.MkdirAll(dir, 0o755))
			must.NoError(t, os.Chmod(dir, 0o777))
			must.NoError(t, os.Chown(dir, tc.owner, -1))
			path := filepath.Join(dir, "kolo.sock")
			plant(t, tc.listener, path)
			got, err := p.Find(t.Context())
			must.NoError(t, err)
			must.Eq(t, tc.found, got == path)
			c, err := p.Dial(t.Context(), path) // as if it had been replaced since
			if tc.found {
				must.NoError(t, err)
				must.NoError(t, c.Close())
				return
			}
			must.ErrorContains(t, err, "is served by uid 65534")
		})
	}
}

// TestListen_KeepsOthersOut connects from a thread that has the rights of another user. The
// thread ends afterwards.
func TestListen_KeepsOthersOut(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("requires root, to be another user")
	}
	path := filepath.Join(private(t), "kolo.sock")
	serve(t, path)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		failed <- connectAs(65534, path)
	}()
	must.ErrorIs(t, <-failed, unix.EACCES)
}

func connectAs(uid int, path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := syscall.Setfsuid(uid); err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}
