// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package commandline recognizes launchers, such as torchrun, in the command line
// of a task.
package commandline

import (
	"path/filepath"
	"slices"
	"strings"
)

// Torchrun is PyTorch's launcher.
const Torchrun = "torchrun"

// launchers are programs that start processes and form groups of them by
// themselves.
var launchers = []string{"horovodrun", "mpirun", "mpiexec", Torchrun}

// torchrunModules are the names of torchrun for python -m.
var torchrunModules = []string{"torch.distributed.run", "torch.distributed.launch"}

// Launcher returns the launcher that a command line starts, such as "torchrun" for
// python -m torch.distributed.run. A torchrun that lets Kolo form the groups
// (--rdzv-backend=kolo) does not count as a launcher.
func Launcher(command string, args []string) (name string, found bool) {
	name = filepath.Base(command)
	if strings.HasPrefix(name, "python") && len(args) > 1 && args[0] == "-m" && slices.Contains(torchrunModules, args[1]) {
		name, args = Torchrun, args[2:]
	}
	if !slices.Contains(launchers, name) || name == Torchrun && rendezvous(args) == "kolo" {
		return "", false
	}
	return name, true
}

// rendezvous returns torchrun's rendezvous backend, "" if it is not given.
func rendezvous(args []string) string {
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		if strings.ReplaceAll(name, "-", "_") != "__rdzv_backend" {
			continue
		}
		if !given && i+1 < len(args) {
			return args[i+1]
		}
		return value
	}
	return ""
}
