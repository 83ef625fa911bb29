// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
)

// anyone is the attribute's value for a Python that every user can run.
const anyone = "anyone"

// addPythonUsers adds an attribute that names the users of tasks that can run the
// framework's Python. (The framework itself asks Python as its owner if nobody else may run
// it.) It adds nothing if the client does not run as root: then all tasks run as the
// client's user.
func (i *installation) addPythonUsers(config *Config) {
	if os.Geteuid() != 0 || i.attributes["installed"] != true {
		return
	}
	python, err := exec.LookPath(config.Python)
	if err != nil {
		return
	}
	if python, err = filepath.Abs(python); err != nil {
		return
	}
	closed, err := closedTo(defaultUser, python, config.BindPaths)
	switch {
	case err != nil:
		return // unknown
	case closed == "":
		i.attributes["python_users"] = anyone
		return
	}
	i.attributes["python_users"] = "owner only: " + closed
	remark := fmt.Sprintf("only the owner of %s can run it, as %s is closed to other users; install it where every user can go, for example below /usr/local", python, closed)
	if i.remark != "" {
		remark = i.remark + "; " + remark
	}
	i.remark = remark
}

// closedTo returns the directory on the way to a program, or the program itself, that keeps
// a user from running it, "" if none does. For isolated tasks, the directories that they
// see decide, provided that they see the program.
func closedTo(user, program string, bindPaths []string) (closed string, err error) {
	who, err := account.Lookup(user)
	if err != nil {
		return "", err
	}
	v := isolation.Layout{BindPaths: isolation.Present(bindPaths)}.View()
	end, err := v.Follow(program, who.Link)
	if errors.Is(err, fs.ErrNotExist) {
		v = isolation.HostView("/")
		end, err = v.Follow(program, who.Link)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) && at.Op == "enter" {
		return at.Path, nil
	}
	if err != nil {
		return "", err
	}
	at, _ := v.Locate(end)
	switch err := who.Executable(at); {
	case errors.Is(err, fs.ErrPermission):
		return end, nil
	case err != nil:
		return "", err
	}
	return "", nil
}
