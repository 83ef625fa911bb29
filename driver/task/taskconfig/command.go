// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/task/commandline"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// launcherFields names the fields that replace a launcher's flags.
func launcherFields(name string) string {
	if name == commandline.Torchrun {
		return `slots (--nproc-per-node), min_np and max_np (--nnodes) instead of its flags; or, with PyTorch, keep it with --rdzv-backend=kolo`
	}
	return "np, min_np and max_np instead of its flags"
}

// checkLauncher refuses a command line that starts a launcher.
func checkLauncher(p *problem.List, a *config.Config) bool {
	name, found := commandline.Launcher(a.Command, a.Args)
	const text = "Kolo takes its place"
	remedy := "set command to the program that trains, and " + launcherFields(name)
	switch {
	case found && filepath.Base(a.Command) == name:
		p.Add("config.command", a.Command, text, remedy)
	case found:
		p.Add("config.args", nil, fmt.Sprintf("-m %s: %s", a.Args[1], text), remedy)
	}
	return found
}

// checkCommand checks that the task will find its command and, for Python, the script.
func checkCommand(p *problem.List, a *config.Config, s *Surroundings) {
	const field = "config.command"
	command := a.Command
	if command == "" {
		p.Add(field, nil, "is not set", `set it to the program that trains, for example "python3" with args = ["${NOMAD_TASK_DIR}/train.py"]`)
		return
	}
	if checkLauncher(p, a) {
		return
	}
	path, closed, found := lookCommand(command, s)
	a.Command = path
	if !found && closed != nil {
		p.Add(field, command, fmt.Sprintf("not found in %s, not all of which the task's user %q can search (%v)%s",
			strings.Join(commandDirs(s.Env), ", "), s.User, closed, s.Hidden), access(closed))
		return
	}
	if !found {
		p.Add(field, command, "not found in "+strings.Join(commandDirs(s.Env), ", ")+s.Hidden, "")
		return
	}
	if err := s.Executable(path); errors.Is(err, fs.ErrNotExist) {
		p.Add(field, command, leads(path, err)+"no such file"+s.belowDir(command)+s.Hidden, "")
		return
	} else if err != nil {
		p.Add(field, command, fmt.Sprintf("the task's user %q cannot run it (%v)", s.User, err), access(err))
	}

	script := pythonScript(command, a.Args)
	if script == "" {
		return
	}
	if err := s.Readable(s.Locate(script)); errors.Is(err, fs.ErrNotExist) {
		p.Add("config.args", nil, fmt.Sprintf("script %q does not exist%s%s", script, s.belowDir(script), s.Hidden), "bring it with an artifact, template or volume_mount block")
	} else if err != nil {
		p.Add("config.args", nil, fmt.Sprintf("script %q cannot be read by the task's user %q (%v)", script, s.User, err), access(err))
	}
}

// access returns the remedy for a file that the task's user has no right to.
func access(err error) string {
	if closed := closedBy(err); closed != nil {
		return fmt.Sprintf("let that user into %s, install it where every user can go, for example below /usr/local, or change the task's user = …", closed.Path)
	}
	return "change its mode or the task's user = …"
}

// closedBy returns the error of the directory on the way to a file that the task's user
// cannot enter, nil if there is none.
func closedBy(err error) *fs.PathError {
	if at := (*fs.PathError)(nil); errors.As(err, &at) && at.Op == "enter" {
		return at
	}
	return nil
}

// leads returns the beginning of a message about a path whose links lead to a missing file.
func leads(path string, err error) string {
	if at := (*fs.PathError)(nil); errors.As(err, &at) && at.Path != path {
		return "leads to " + at.Path + ", "
	}
	return ""
}

// commandDirs returns the directories to search for a command without a slash.
func commandDirs(env map[string]string) []string {
	path := env["PATH"]
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return filepath.SplitList(path)
}

// lookCommand finds a command as a shell in the task would. closed is the first directory
// that it cannot enter.
func lookCommand(command string, s *Surroundings) (path string, closed *fs.PathError, found bool) {
	if strings.Contains(command, "/") {
		return s.Locate(command), nil, true
	}
	for _, dir := range commandDirs(s.Env) {
		path = s.Locate(filepath.Join(dir, command))
		err := s.Executable(path)
		if err == nil {
			return path, nil, true
		}
		if closed == nil {
			closed = closedBy(err)
		}
	}
	return "", closed, false
}

// pythonScript returns the script that a Python command line runs. It is "" if there is
// none (-m, -c) or the command is not Python.
func pythonScript(command string, args []string) string {
	if !strings.HasPrefix(filepath.Base(command), "python") {
		return ""
	}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-W" || arg == "-X": // these take a value
			i++
		case strings.HasPrefix(arg, "-m") || strings.HasPrefix(arg, "-c"), arg == "-":
			return ""
		case !strings.HasPrefix(arg, "-"):
			return arg
		}
	}
	return ""
}
