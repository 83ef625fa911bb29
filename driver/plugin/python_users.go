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

// anyone is the value of the node attribute for a Python that every user can run.
const anyone = "anyone"

// addPythonUsers adds to what a framework has found which users of tasks can run that
// Python. The framework asks it as its owner where nobody else may. Nothing is added where
// the client does not run as root: then all tasks have its user.
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
		return // not known
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

// closedTo returns which directory, or program, on the way keeps a user from running a
// program, empty where none does. What isolated tasks see of the client decides, where they
// see the program.
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
