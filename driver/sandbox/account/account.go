// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package account describes the user that a task runs as, and checks what that user may do
// to files: a process that runs as root asks the kernel with that user's rights.
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
	// Groups are all of the user's groups, including the primary one.
	Groups []int
	// Dynamic states that Nomad made the user up for one task: it is in no user database,
	// and has no home.
	Dynamic bool
}

// dynamicName matches Nomad's names for such users (helper/users/dynamic). Their group has
// the same number.
var dynamicName = regexp.MustCompile(`^nomad-([0-9]+)$`)

// Path is the path of a file on the client. Base is a directory that the task sees, and Rel
// is the path from there to the file, empty for Base itself. The rights of the task's user
// are checked only along Rel.
type Path struct{ Base, Rel string }

// Lookup finds a user by name or number, and one of Nomad's dynamic users by name. An empty
// name means the plugin's own user, as in raw_exec.
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

// dynamicUser returns the dynamic user with the number, which must not belong to any other
// user.
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

// CheckRoot returns an error for users with root's user or group ID. The error contains
// allow, which advises the operator how to permit such users.
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

// Identity returns the account in the form that package confine needs. With setuid, setuid
// programs keep their rights.
func (a Account) Identity(setuid bool) confine.Identity {
	return confine.Identity{UID: a.UID, GID: a.GID, Groups: a.Groups, Setuid: setuid}
}

// Readable returns nil if the account may open the file for reading. It asks the kernel
// with the account's own rights, so that access lists, and network file systems that do not
// trust root, decide as they will for the task.
func (a Account) Readable(file Path) error {
	return a.below(file, func(base int) error {
		if file.Rel == "." { // Base is the file itself
			return accessible(base, unix.R_OK)
		}
		fd, err := unix.Openat(base, file.Rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
}

// Executable returns nil if the account may run the file.
func (a Account) Executable(file Path) error {
	var st unix.Stat_t
	err := a.below(file, func(base int) error {
		if file.Rel == "." { // Base is the file itself
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
	case err == nil && st.Mode&0o111 == 0: // for kernels where accessible cannot tell
		return unix.EACCES
	}
	return err
}

// Writable returns nil if the account may create files in a directory.
func (a Account) Writable(dir Path) error { return a.directory(dir, unix.W_OK|unix.X_OK) }

// Enterable returns nil if the account may make a directory its working directory.
func (a Account) Enterable(dir Path) error { return a.directory(dir, unix.X_OK) }

// directory returns nil if the account has the rights to a directory.
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

// below opens file.Base and runs f on it with the account's rights. It also follows links
// with these rights: their targets may be off limits to the task.
func (a Account) below(file Path, f func(base int) error) error {
	base, err := unix.Open(file.Base, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(base) }()
	return a.try(func() error { return f(base) })
}

// try runs f with the account's rights to files, on a thread that is discarded afterwards:
// the rights belong to the thread.
func (a Account) try(f func() error) error {
	if os.Geteuid() != 0 || a.UID == 0 {
		return f()
	}
	return ownthread.Do(func() error {
		// The wrappers in package unix would change all threads of the process.
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
