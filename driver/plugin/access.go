// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/confine"
)

// account is the user that a task runs as.
type account struct {
	name, home string
	uid, gid   int
	// groups are all, the primary one included.
	groups []int
}

// lookupAccount finds a user by name or number. An empty name is the plugin's own
// user, as in raw_exec.
func lookupAccount(name string) (account, error) {
	u, err := findUser(name)
	if err != nil {
		return account{}, fmt.Errorf("user = %q: %w", name, err)
	}
	a := account{name: u.Username, home: u.HomeDir}
	if a.uid, err = strconv.Atoi(u.Uid); err != nil {
		return account{}, fmt.Errorf("user = %q: uid %q is no number", name, u.Uid)
	}
	if a.gid, err = strconv.Atoi(u.Gid); err != nil {
		return account{}, fmt.Errorf("user = %q: gid %q is no number", name, u.Gid)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return account{}, fmt.Errorf("user = %q: groups: %w", name, err)
	}
	for _, id := range ids {
		if gid, err := strconv.Atoi(id); err == nil {
			a.groups = append(a.groups, gid)
		}
	}
	return a, nil
}

func findUser(name string) (*user.User, error) {
	if name == "" {
		return user.Current()
	}
	if strings.Contains(name, ":") {
		return nil, errors.New("is a user and a group; name the user alone, its groups are those of the client's group database")
	}
	u, err := user.Lookup(name)
	if errors.As(err, new(user.UnknownUserError)) {
		if _, isName := strconv.ParseUint(name, 10, 32); isName == nil {
			return user.LookupId(name)
		}
	}
	return u, err
}

// checkRoot refuses, by number, users who own root's files or have its group.
func (a account) checkRoot() error {
	const remedy = `choose another user, for example "nobody", or set allow_root = true in the config of plugin "nomad-driver-horovod"`
	if a.uid == 0 {
		return fmt.Errorf(`user = %q: has uid 0, which isolation = "exec" refuses on this client; %s`, a.name, remedy)
	}
	if a.gid == 0 || slices.Contains(a.groups, 0) {
		return fmt.Errorf(`user = %q: is in the group with gid 0, which isolation = "exec" refuses on this client; take it out of that group, or %s`, a.name, remedy)
	}
	return nil
}

// identity is the account as package confine knows it.
func (a account) identity(isolation string) confine.Identity {
	return confine.Identity{UID: a.uid, GID: a.gid, Groups: a.groups, Setuid: isolation == isolationNone}
}

// readable is nil when the account may open the file for reading. The kernel
// is asked with the account's own rights, so that access lists, and network
// file systems that do not trust root, are judged as they will be.
func (a account) readable(file place) error {
	return a.open(file, unix.O_RDONLY|unix.O_NONBLOCK)
}

// executable is nil when the account may run the file.
func (a account) executable(file place) error {
	// Opening with O_PATH asks for permission to search the directories only;
	// permission to run the file itself is a matter of its mode.
	if err := a.open(file, unix.O_PATH); err != nil {
		return err
	}
	st, err := a.stat(file)
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	case st.Mode&0o111 == 0:
		return unix.EACCES
	}
	return nil
}

// stat follows links with the account's rights: what they lead to may be none of
// the task's business.
func (a account) stat(file place) (st unix.Stat_t, err error) {
	base, err := unix.Open(file.base, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return st, err
	}
	defer func() { _ = unix.Close(base) }()
	err = a.try(func() error {
		if file.rel == "." {
			return unix.Fstat(base, &st)
		}
		return unix.Fstatat(base, file.rel, &st, 0)
	})
	return st, err
}

// open opens and closes a file with the account's rights below file.base.
func (a account) open(file place, flags int) error {
	base, err := unix.Open(file.base, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(base) }()
	return a.try(func() error {
		if file.rel == "." { // base is the file itself
			return accessible(base, flags)
		}
		fd, err := unix.Openat(base, file.rel, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
}

// try runs f with the account's rights to files. They belong to the thread,
// which is thrown away afterwards.
func (a account) try(f func() error) error {
	if os.Geteuid() != 0 || a.uid == 0 {
		return f()
	}
	return onOwnThread(func() error {
		// The wrappers in package unix would change the whole process.
		if err := setThreadGroups(a.groups); err != nil {
			return fmt.Errorf("setgroups: %w", err)
		}
		if err := unix.Setfsgid(a.gid); err != nil {
			return fmt.Errorf("setfsgid: %w", err)
		}
		if err := unix.Setfsuid(a.uid); err != nil {
			return fmt.Errorf("setfsuid: %w", err)
		}
		return f()
	})
}

// onOwnThread runs f on a thread that no other goroutine will use again: f may
// change what belongs to the thread.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}
