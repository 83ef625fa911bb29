// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
)

// TestAccessIsThatOfTheUser needs root to check with another user's rights.
func TestAccessIsThatOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	nobody, err := Lookup("nobody")
	must.NoError(t, err)
	dir := openDir(t)
	must.NoError(t, os.Mkdir(filepath.Join(dir, "closed"), 0o700))
	must.NoError(t, os.Mkdir(filepath.Join(dir, "closed/below"), 0o755))
	for name, mode := range map[string]fs.FileMode{"open": 0o644, "mine": 0o600, "program": 0o755, "root's program": 0o700, "closed/open": 0o755, "closed/mine": 0o600, "closed/below/open": 0o644} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		must.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	at := func(rel string) Path { return Path{"/", filepath.Join(dir, rel)[1:]} }
	must.NoError(t, nobody.Readable(at("open")))
	must.ErrorIs(t, nobody.Readable(at("mine")), fs.ErrPermission)
	must.ErrorIs(t, nobody.Readable(at("closed/open")), fs.ErrPermission)
	must.ErrorIs(t, nobody.Readable(at("missing")), fs.ErrNotExist)
	must.NoError(t, nobody.Readable(Path{filepath.Join(dir, "closed/below"), "open"}), must.Sprint("bound elsewhere, the directory above does not matter"))
	must.NoError(t, nobody.Readable(Path{filepath.Join(dir, "closed/open"), "."}), must.Sprint("a bound file"))
	must.ErrorIs(t, nobody.Readable(Path{filepath.Join(dir, "closed/mine"), "."}), fs.ErrPermission)
	must.NoError(t, nobody.Executable(Path{filepath.Join(dir, "closed/open"), "."}))
	must.NoError(t, nobody.Executable(at("program")))
	must.ErrorIs(t, nobody.Executable(at("open")), syscall.EACCES)
	must.ErrorIs(t, nobody.Executable(at("root's program")), syscall.EACCES)
	must.ErrorIs(t, nobody.Executable(at("closed/open")), syscall.EACCES)
	must.ErrorIs(t, nobody.Executable(at(".")), syscall.EISDIR)
	// The target of a link is not shown to users that may not look there.
	for name, target := range map[string]string{"to file": "closed/open", "to nothing": "closed/missing", "to directory": "closed/below"} {
		must.NoError(t, os.Symlink(filepath.Join(dir, target), filepath.Join(dir, name)))
		must.ErrorIs(t, nobody.Executable(at(name)), syscall.EACCES, must.Sprint(name))
	}

	must.NoError(t, nobody.Enterable(at(".")))
	must.ErrorIs(t, nobody.Enterable(at("open")), syscall.ENOTDIR)
	must.ErrorIs(t, nobody.Enterable(at("missing")), fs.ErrNotExist)
	must.ErrorIs(t, nobody.Enterable(at("closed")), fs.ErrPermission)
	must.ErrorIs(t, nobody.Enterable(at("closed/below")), fs.ErrPermission)
	must.NoError(t, nobody.Enterable(Path{filepath.Join(dir, "closed/below"), "."}), must.Sprint("bound elsewhere"))

	// None of it must stick to this process.
	must.NoError(t, os.WriteFile(filepath.Join(dir, "closed/own"), nil, 0o600))
	must.Eq(t, 0, os.Geteuid())
}

// openDir returns a directory that all users may enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		must.NoError(t, os.Chmod(p, 0o755))
	}
	return dir
}

func TestUnknownUser(t *testing.T) {
	_, err := Lookup("no-such-user-" + strconv.Itoa(os.Getpid()))
	must.ErrorContains(t, err, "user = ")
}

func TestUsersWithRootsRights(t *testing.T) {
	cases := map[string]struct {
		who     Account
		refused string
	}{
		"ordinary":         {Account{Name: "alice", UID: 1000, GID: 1000, Groups: []int{1000, 27}}, ""},
		"root":             {Account{Name: "root"}, "has uid 0"},
		"a second name":    {Account{Name: "toor", GID: 1000, Groups: []int{1000}}, `user = "toor": has uid 0`},
		"primary group":    {Account{Name: "operator", UID: 11}, "gid 0"},
		"member of groups": {Account{Name: "alice", UID: 1000, GID: 1000, Groups: []int{1000, 0}}, "gid 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.who.CheckRoot("set allow_root = true")
			if c.refused == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, c.refused)
			must.ErrorContains(t, err, "allow_root = true")
		})
	}
}

func TestUsersByNumber(t *testing.T) {
	root, err := Lookup("0")
	must.NoError(t, err)
	must.Eq(t, 0, root.UID)
	must.Eq(t, "root", root.Name)
	_, err = Lookup("root:video")
	must.ErrorContains(t, err, "name the user alone")
	_, err = Lookup("4294967294")
	must.ErrorContains(t, err, `user = "4294967294"`)
}

// The names of Nomad's dynamic users must belong to no other user, because a job
// can write them as well.
func TestDynamicUsersAreInNoDatabase(t *testing.T) {
	who, err := Lookup("nomad-80123")
	must.NoError(t, err)
	must.Eq(t, Account{Name: "nomad-80123", UID: 80123, GID: 80123, Groups: []int{80123}, Dynamic: true}, who)
	for name, other := range map[string]string{"nomad-0": "root", "nomad-00": "root", "nomad-1": "daemon"} {
		_, err := Lookup(name)
		must.ErrorContains(t, err, fmt.Sprintf("which is user %q on this client", other))
	}
}
