// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package account is the user that a task runs as, and what that user may do to
// files: the kernel is asked with the user's own rights, by a process of root.
package account

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/sandbox/confine"
	"github.com/kolo-nomad/kolo/driver/sandbox/ownthread"
)

// Account is the user that a task runs as.
type Account struct {
	Name, Home string
	UID, GID   int
	// Groups are all, the primary one included.
	Groups []int
	// Dynamic states that Nomad made the user up for one task: no user database has
	// it, and it has no home.
	Dynamic bool
}

// dynamicName is what Nomad calls such a user (helper/users/dynamic), whose group has
// the same number.
var dynamicName = regexp.MustCompile(`^nomad-([0-9]+)$`)

// Path is a file on the client, confined to what a task sees: Base, and what lies
// below it. Only Rel is subject to the rights of the task's user.
type Path struct{ Base, Rel string }

// Lookup finds a user by name or number, one of Nomad's dynamic users by its name. An
// empty name is the plugin's own user, as in raw_exec.
func Lookup(name string) (Account, error) {
	u, err := findUser(name)
	if m := dynamicName.FindStringSubmatch(name); m != nil && errors.As(err, new(user.UnknownUserError)) {
		return dynamicUser(name, m[1])
	}
	if err != nil {
		return Account{}, fmt.Errorf("user = %q: %w", name, err)
	}
	a := Account{Name: u.Username, Home: u.HomeDir}
	if a.UID, err = strconv.Atoi(u.Uid); err != nil {
		return Account{}, fmt.Errorf("user = %q: uid %q is no number", name, u.Uid)
	}
	if a.GID, err = strconv.Atoi(u.Gid); err != nil {
		return Account{}, fmt.Errorf("user = %q: gid %q is no number", name, u.Gid)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return Account{}, fmt.Errorf("user = %q: groups: %w", name, err)
	}
	for _, id := range ids {
		if gid, err := strconv.Atoi(id); err == nil {
			a.Groups = append(a.Groups, gid)
		}
	}
	return a, nil
}

// dynamicUser returns the user of that number, which must not be anybody else's.
func dynamicUser(name, number string) (Account, error) {
	id, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return Account{}, fmt.Errorf("user = %q: %q is no number of a user", name, number)
	}
	if other, err := user.LookupId(strconv.FormatInt(id, 10)); err == nil {
		return Account{}, fmt.Errorf("user = %q: has uid %d, which is user %q on this client; name that one, or leave its number out of the client's users block",
			name, id, other.Username)
	}
	return Account{Name: name, UID: int(id), GID: int(id), Groups: []int{int(id)}, Dynamic: true}, nil
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

// CheckRoot refuses, by number, users who own root's files or have its group.
// allow is what an operator does to let them run.
func (a Account) CheckRoot(allow string) error {
	remedy := `choose another user, for example "nobody", or ` + allow
	if a.UID == 0 {
		return fmt.Errorf(`user = %q: has uid 0, which isolation = "exec" refuses on this client; %s`, a.Name, remedy)
	}
	if a.GID == 0 || slices.Contains(a.Groups, 0) {
		return fmt.Errorf(`user = %q: is in the group with gid 0, which isolation = "exec" refuses on this client; take it out of that group, or %s`, a.Name, remedy)
	}
	return nil
}

// Identity is the account as package confine knows it. setuid leaves setuid programs
// their rights.
func (a Account) Identity(setuid bool) confine.Identity {
	return confine.Identity{UID: a.UID, GID: a.GID, Groups: a.Groups, Setuid: setuid}
}

// Readable is nil when the account may open the file for reading. The kernel
// is asked with the account's own rights, so that access lists, and network
// file systems that do not trust root, are judged as they will be.
func (a Account) Readable(file Path) error {
	return a.below(file, func(base int) error {
		if file.Rel == "." { // base is the file itself
			return accessible(base, unix.R_OK)
		}
		fd, err := unix.Openat(base, file.Rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
}

// Executable is nil when the account may run the file.
func (a Account) Executable(file Path) error {
	var st unix.Stat_t
	err := a.below(file, func(base int) error {
		if file.Rel == "." { // base is the file itself
			if err := unix.Fstat(base, &st); err != nil {
				return err
			}
			return accessible(base, unix.X_OK)
		}
		if err := unix.Fstatat(base, file.Rel, &st, 0); err != nil {
			return err
		}
		return unix.Faccessat(base, file.Rel, unix.X_OK, unix.AT_EACCESS)
	})
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	case err == nil && st.Mode&0o111 == 0: // where accessible does not know
		return unix.EACCES
	}
	return err
}

// Writable is nil when the account may make files in a directory.
func (a Account) Writable(dir Path) error { return a.directory(dir, unix.W_OK|unix.X_OK) }

// Enterable is nil when the account may make a directory its working directory.
func (a Account) Enterable(dir Path) error { return a.directory(dir, unix.X_OK) }

// directory is nil when the account has rights to a directory.
func (a Account) directory(dir Path, rights uint32) error {
	return a.below(dir, func(base int) error {
		var st unix.Stat_t
		if err := unix.Fstatat(base, dir.Rel, &st, 0); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return unix.ENOTDIR
		}
		return unix.Faccessat(base, dir.Rel, rights, unix.AT_EACCESS)
	})
}

// below runs f, on the open file.Base, with the account's rights. Links are followed
// with them: what they lead to may be none of the task's business.
func (a Account) below(file Path, f func(base int) error) error {
	base, err := unix.Open(file.Base, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(base) }()
	return a.try(func() error { return f(base) })
}

// try runs f with the account's rights to files. They belong to the thread,
// which is thrown away afterwards.
func (a Account) try(f func() error) error {
	if os.Geteuid() != 0 || a.UID == 0 {
		return f()
	}
	return ownthread.Do(func() error {
		// The wrappers in package unix would change the whole process.
		if err := confine.SetThreadGroups(a.Groups); err != nil {
			return fmt.Errorf("setgroups: %w", err)
		}
		if err := unix.Setfsgid(a.GID); err != nil {
			return fmt.Errorf("setfsgid: %w", err)
		}
		if err := unix.Setfsuid(a.UID); err != nil {
			return fmt.Errorf("setfsuid: %w", err)
		}
		return f()
	})
}
