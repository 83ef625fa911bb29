// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/kolo-nomad/kolo/driver/account"
	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/commandline"
	"github.com/kolo-nomad/kolo/driver/isolation"
)

// launcherFields are the fields that take the place of a launcher's flags.
func launcherFields(name string) string {
	if name == commandline.Torchrun {
		return `slots (--nproc-per-node), min_np and max_np (--nnodes) instead of its flags; or, with driver = "torch", keep it with --rdzv-backend=kolo`
	}
	return "np, min_np and max_np instead of its flags"
}

// checkLauncher refuses a command line that starts a launcher.
func checkLauncher(p *problems, a *agentconfig.Config) bool {
	name, found := commandline.Launcher(a.Command, a.Args)
	if found {
		given := fmt.Sprintf("command = %q", a.Command)
		if filepath.Base(a.Command) != name {
			given = "args: -m " + a.Args[1]
		}
		p.addf("%s: this driver takes its place; set command to the program that trains, and %s", given, launcherFields(name))
	}
	return found
}

// checkCommand finds the command and, for Python, the script, where the task
// will see them.
func checkCommand(p *problems, a *agentconfig.Config, s *hostEnvironment, v isolation.View) {
	command := a.Command
	a.Dir = v.CWD
	if command == "" {
		p.addf(`command: is not set; set it to the program that trains, for example "python3" with args = ["${NOMAD_TASK_DIR}/train.py"]`)
		return
	}
	if checkLauncher(p, a) {
		return
	}
	file, taskPath, found := lookCommand(command, s, v)
	a.Command = taskPath
	if !found {
		p.addf("command = %q: not found in %s%s", command, strings.Join(commandDirs(s.env), ", "), s.bindHint(v))
		return
	}
	if err := s.executable(file); errors.Is(err, fs.ErrNotExist) {
		p.addf("command = %q: no such file%s", command, s.bindHint(v))
		return
	} else if err != nil {
		p.addf("command = %q: the task's user %q cannot run it (%v); change its mode or the task's user = …", command, s.user, err)
	}

	script := pythonScript(command, a.Args)
	if script == "" {
		return
	}
	file, _ = v.Locate(script)
	if err := s.readable(file); errors.Is(err, fs.ErrNotExist) {
		p.addf("args: script %q does not exist%s; bring it with an artifact, template or volume_mount block", script, s.bindHint(v))
	} else if err != nil {
		p.addf("args: script %q cannot be read by the task's user %q (%v); change its mode or the task's user = …", script, s.user, err)
	}
}

// bindHint reminds of the reason why something that is on the host is not seen.
func (s *hostEnvironment) bindHint(v isolation.View) string {
	if !v.Isolated {
		return ""
	}
	return " in the task's isolated file system (bind_paths in the config of " + s.plugin.block + " says what of the host is in it)"
}

// commandDirs are the directories searched for a command without a slash.
func commandDirs(env map[string]string) []string {
	path := env["PATH"]
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return filepath.SplitList(path)
}

// lookCommand finds a command as a shell would in the task's view.
func lookCommand(command string, s *hostEnvironment, v isolation.View) (file account.Path, taskPath string, found bool) {
	if strings.Contains(command, "/") {
		file, taskPath = v.Locate(command)
		return file, taskPath, true
	}
	for _, dir := range commandDirs(s.env) {
		file, taskPath = v.Locate(filepath.Join(dir, command))
		if s.executable(file) == nil {
			return file, taskPath, true
		}
	}
	return account.Path{}, "", false
}

// pythonScript is the script that a Python command line runs, "" if it runs
// none (-m, -c) or is no Python.
func pythonScript(command string, args []string) string {
	if !strings.HasPrefix(filepath.Base(command), "python") {
		return ""
	}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-W" || arg == "-X": // take a value
			i++
		case strings.HasPrefix(arg, "-m") || strings.HasPrefix(arg, "-c"), arg == "-":
			return ""
		case !strings.HasPrefix(arg, "-"):
			return arg
		}
	}
	return ""
}
