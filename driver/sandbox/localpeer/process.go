// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// process holds the fields of /proc/<pid>/stat in use here.
type process struct {
	parent, session int
	// started is in clock ticks since the machine was booted. Together with its
	// number it identifies a process uniquely.
	started uint64
}

// parseStat reads a line of the form of /proc/<pid>/stat.
func parseStat(stat []byte) (process, bool) {
	// The command, in brackets, may hold spaces and brackets itself.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	started, err3 := strconv.ParseUint(fields[19], 10, 64)
	if err != nil || err2 != nil || err3 != nil {
		return process{}, false
	}
	return process{parent: parent, session: session, started: started}, true
}

func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	return parseStat(stat)
}

// processes returns all processes that the caller can see, by number.
func processes() (map[int]process, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = proc.Close() }()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all[pid] = p
		}
	}
	return all, nil
}

// Descendants returns a process and all of its direct and indirect child processes.
func Descendants(pid int) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	return descendants(all, pid), nil
}

func descendants(all map[int]process, root int) []int {
	children := map[int][]int{}
	for pid, p := range all {
		// A parent that is younger than its child is another process: the real
		// parent ended while the list was read, and its number was reused.
		if parent, ok := all[p.parent]; ok && parent.started <= p.started {
			children[p.parent] = append(children[p.parent], pid)
		}
	}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list
}

// members returns the processes of a process's task: its descendants and, if it
// leads a session, the whole session.
func members(all map[int]process, self int) []int {
	list := descendants(all, self)
	if all[self].session != self {
		return list
	}
	known := make(map[int]bool, len(list))
	for _, pid := range list {
		known[pid] = true
	}
	for pid, p := range all {
		if p.session == self && !known[pid] {
			list = append(list, pid)
		}
	}
	return list
}

// self returns the caller's number in this /proc, which may be that of another PID
// namespace than the caller's.
func self() (int, error) {
	link, err := os.Readlink("/proc/self")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(link)
}
