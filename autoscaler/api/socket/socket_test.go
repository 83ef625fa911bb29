// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import (
	"net"
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

func serve(t *testing.T, path string) *Listener {
	t.Helper()
	l, err := Listen(path, "")
	must.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // a test may have
	return l
}

// private is a directory that Listen accepts: those of t.TempDir can be
// reached by others.
func private(t *testing.T) string {
	dir := t.TempDir()
	must.NoError(t, os.Chmod(dir, 0o700))
	return dir
}

func TestListen_IsForItsUser(t *testing.T) {
	path := filepath.Join(private(t), "kolo", "kolo.sock")
	l := serve(t, path)
	for at, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		info, err := os.Lstat(at)
		must.NoError(t, err)
		must.Eq(t, want, info.Mode().Perm(), must.Sprint(at))
	}
	_, err := Listen(path, "")
	must.ErrorIs(t, err, errInUse)
	must.NoError(t, l.Close())
	left, err := os.ReadDir(filepath.Dir(path))
	must.NoError(t, err)
	must.SliceEmpty(t, left)
	serve(t, path)
}

func TestListen_RemovesWhatADeadAgentLeft(t *testing.T) {
	path := filepath.Join(private(t), "kolo.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.NoError(t, err)
	l.SetUnlinkOnClose(false)
	must.NoError(t, l.Close())
	must.NoError(t, os.WriteFile(path+".lock", nil, 0o600))
	serve(t, path)
}

// TestListen_RefusesWhatOthersPlanted has an attacker that writes to the socket's
// directory, before or after the autoscaler creates it.
func TestListen_RefusesWhatOthersPlanted(t *testing.T) {
	for name, tc := range map[string]struct {
		plant func(t *testing.T, dir string) (path string)
		want  string
	}{
		"a link in place of the directory": {func(t *testing.T, dir string) string {
			must.NoError(t, os.Mkdir(filepath.Join(dir, "elsewhere"), 0o700))
			must.NoError(t, os.Symlink("elsewhere", filepath.Join(dir, "kolo")))
			return filepath.Join(dir, "kolo", "kolo.sock")
		}, "is a symbolic link, not a directory"},
		"a directory that others can write": {func(t *testing.T, dir string) string {
			must.NoError(t, os.Chmod(dir, 0o777))
			return filepath.Join(dir, "kolo.sock")
		}, "can be written by other users"},
		"a shared directory, though sticky": {func(t *testing.T, dir string) string {
			must.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
			return filepath.Join(dir, "kolo.sock")
		}, "can be written by other users"},
		"a directory above that others can write": {func(t *testing.T, dir string) string {
			must.NoError(t, os.Chmod(dir, 0o777))
			return filepath.Join(dir, "kolo", "kolo.sock")
		}, "can be written by other users"},
		"a link in place of the socket": {func(t *testing.T, dir string) string {
			must.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "kolo.sock")))
			return filepath.Join(dir, "kolo.sock")
		}, "a symbolic link of uid"},
		"a file in place of the socket": {func(t *testing.T, dir string) string {
			must.NoError(t, os.WriteFile(filepath.Join(dir, "kolo.sock"), []byte("keep"), 0o600))
			return filepath.Join(dir, "kolo.sock")
		}, "a file of uid"},
		"a link in place of the lock": {func(t *testing.T, dir string) string {
			must.NoError(t, os.Symlink(filepath.Join(dir, "victim"), filepath.Join(dir, "kolo.sock.lock")))
			return filepath.Join(dir, "kolo.sock")
		}, "too many levels of symbolic links"},
		"no directory above": {func(_ *testing.T, dir string) string {
			return filepath.Join(dir, "a", "b", "kolo.sock")
		}, "make the directory"},
		"a path that is too long": {func(_ *testing.T, dir string) string {
			return filepath.Join(dir, string(make([]byte, longest)))
		}, "name a shorter one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := private(t)
			path := tc.plant(t, dir)
			_, err := Listen(path, "")
			must.ErrorContains(t, err, tc.want)
			_, err = os.Lstat(filepath.Join(dir, "victim"))
			must.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

func TestListen_AnotherUsersDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("requires root, to give a directory away")
	}
	dir := private(t)
	must.NoError(t, os.Chown(dir, 65534, 65534))
	_, err := Listen(filepath.Join(dir, "kolo.sock"), "")
	must.ErrorContains(t, err, "belongs to uid 65534")
}

func TestListen_Group(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("requires root, to give a socket to a group")
	}
	group, err := user.LookupGroupId("65534")
	if err != nil {
		t.Skip("requires a group 65534")
	}
	path := filepath.Join(private(t), "kolo", "kolo.sock")
	l, err := Listen(path, group.Name)
	must.NoError(t, err)
	defer l.Close()
	for at, want := range map[string]os.FileMode{filepath.Dir(path): 0o750, path: 0o660} {
		info, err := os.Lstat(at)
		must.NoError(t, err)
		must.Eq(t, want, info.Mode().Perm(), must.Sprint(at))
	}
	_, err = Listen(filepath.Join(private(t), "kolo.sock"), "no such group")
	must.ErrorContains(t, err, "unknown group")
}

func TestGate(t *testing.T) {
	group := &user.Group{Gid: "4711", Name: "operators"}
	for name, tc := range map[string]struct {
		gate Gate
		peer Peer
		want string
	}{
		"root":                        {Gate{UID: 1000}, Peer{UID: 0}, ""},
		"the same user":               {Gate{UID: 1000}, Peer{UID: 1000}, ""},
		"another user":                {Gate{UID: 1000}, Peer{UID: 1001}, "for root and for uid 1000, and the caller is uid 1001; http { unix_group }"},
		"another user, of root's":     {Gate{UID: 0}, Peer{UID: 65534}, "the caller is uid 65534"},
		"a member":                    {Gate{UID: 1000, Group: group}, Peer{UID: 1001, GID: 4711}, ""},
		"no member":                   {Gate{UID: 1000, Group: group}, Peer{UID: 4294967294, GID: 7}, "not in the group operators"},
		"root's group without a gate": {Gate{UID: 1000}, Peer{UID: 1001, GID: 0}, "the caller is uid 1001"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.gate.Admit(tc.peer)
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}

func TestPeerOf(t *testing.T) {
	l := serve(t, filepath.Join(private(t), "kolo.sock"))
	c, err := net.Dial("unix", l.Addr().String())
	must.NoError(t, err)
	defer c.Close()
	s, err := l.Accept()
	must.NoError(t, err)
	defer s.Close()
	p, err := PeerOf(s)
	must.NoError(t, err)
	must.Eq(t, Peer{UID: os.Getuid(), GID: os.Getgid(), PID: os.Getpid()}, p)

	tcp, other := net.Pipe()
	defer tcp.Close()
	defer other.Close()
	_, err = PeerOf(tcp)
	must.ErrorContains(t, err, "no connection of a Unix socket")
}

func TestPlaces_Default(t *testing.T) {
	mine := private(t)
	for name, tc := range map[string]struct {
		places Places
		port   int
		want   string
	}{
		"root":                        {Places{UID: 0, System: "/run/kolo", Runtime: "/run/user/0"}, 8648, "/run/kolo/kolo.sock"},
		"a second autoscaler of root": {Places{UID: 0, System: "/run/kolo"}, 8650, "/run/kolo/kolo-8650.sock"},
		"a user":                      {Places{UID: 1000, System: "/nowhere", Runtime: "/run/user/1000"}, 8648, "/run/user/1000/kolo/kolo.sock"},
		"a user that was given it":    {Places{UID: os.Getuid(), System: mine, Runtime: "/run/user/1000"}, 8648, mine + "/kolo.sock"},
		"a user with no place":        {Places{UID: 1000, System: "/nowhere"}, 8648, ""},
		"a place that is relative":    {Places{UID: 1000, System: "/nowhere", Runtime: "tmp"}, 8648, ""},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, tc.want, tc.places.Default(tc.port)) })
	}
}

func TestPlaces_Find(t *testing.T) {
	system, user := private(t), private(t)
	p := Places{UID: os.Getuid(), System: system, Runtime: user}
	find := func(want string) {
		t.Helper()
		got, err := p.Find(t.Context())
		must.NoError(t, err)
		must.Eq(t, want, got)
	}
	find("")
	must.NoError(t, os.WriteFile(filepath.Join(system, "kolo.sock"), nil, 0o600))
	find("") // no one listens
	one := serve(t, filepath.Join(system, "kolo-1.sock"))
	find(one.Addr().String())
	two := serve(t, filepath.Join(user, "kolo", "kolo-2.sock"))
	_, err := p.Find(t.Context())
	must.ErrorContains(t, err, "several autoscalers run here; choose one with -address or KOLO_ADDR: unix://")
	must.ErrorContains(t, err, two.Addr().String())
	main := serve(t, filepath.Join(user, "kolo", "kolo.sock"))
	find(main.Addr().String())

	t.Log("an autoscaler of another user is given nothing")
	p.UID = 4711
	if os.Getuid() != 0 {
		find("")
	}
}
