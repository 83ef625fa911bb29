// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A Process is a process of this machine, as in /proc.
type Process struct {
	PID, Parent int
	Args        []string
	// Env is the environment that it was started with.
	Env map[string]string
}

// Kill sends SIGKILL to the process. It returns an error if the process is already
// gone.
func (p Process) Kill() error {
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill -9 %d (%s): %w", p.PID, strings.Join(p.Args, " "), err)
	}
	return nil
}

// Memory returns the process's resident memory in bytes, and how much of it is not
// shared with other processes of the same program. It returns an error if
// /proc/pid/smaps_rollup cannot be read.
func (p Process) Memory() (resident, own int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) != 2 {
			continue
		}
		kb, _ := strconv.Atoi(fields[0])
		switch name {
		case "Rss":
			resident += kb * 1024
		case "Private_Clean", "Private_Dirty":
			own += kb * 1024
		}
	}
	return resident, own, nil
}

// Processes returns the processes for which match returns true. It omits processes
// that end meanwhile, and processes of other users.
func Processes(match func(Process) bool) []Process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []Process
	for _, dir := range dirs {
		if p, ok := readProcess(dir); ok && match(p) {
			found = append(found, p)
		}
	}
	return found
}

// readProcess fails for kernel threads, zombies, and unreadable processes.
func readProcess(dir string) (Process, bool) {
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return Process{}, false
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(cmdline) == 0 {
		return Process{}, false
	}
	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return Process{}, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Process{}, false
	}
	p := Process{PID: pid, Env: map[string]string{}}
	for arg := range bytes.SplitSeq(bytes.TrimRight(cmdline, "\x00"), []byte{0}) {
		p.Args = append(p.Args, string(arg))
	}
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, _ := strings.Cut(string(kv), "=")
		p.Env[name] = value
	}
	// The format is: pid (name) state parent …; the name may contain spaces and
	// parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	p.Parent, _ = strconv.Atoi(fields[1])
	return p, true
}

// driverName begins the names of the driver's programs.
const driverName = "nomad-driver"

// Slots returns the training processes of an allocation.
func Slots(allocID string) []Process {
	return Processes(func(p Process) bool {
		_, slot := p.Env["KOLO_SLOT"]
		return slot && p.Env["NOMAD_ALLOC_ID"] == allocID
	})
}

// Agents returns the processes of an allocation's agent, which the driver runs
// inside the allocation.
func Agents(allocID string) []Process {
	return Processes(func(p Process) bool {
		return p.Env["NOMAD_ALLOC_ID"] == allocID && p.Env["KOLO_SLOT"] == "" && len(p.Args) > 1 &&
			strings.HasPrefix(filepath.Base(p.Args[0]), driverName) && p.Args[1] == "agent"
	})
}

// Plugins returns the driver's plugin processes on a node.
func (n *Node) Plugins() []Process {
	client := n.PID()
	return Processes(func(p Process) bool {
		return p.Parent == client && strings.HasPrefix(filepath.Base(p.Args[0]), driverName)
	})
}
