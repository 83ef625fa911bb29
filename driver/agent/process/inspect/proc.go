// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// process is a line of the kernel's list of processes.
type process struct {
	pid, parent int
	command     string
	state       stacks.State
	started     uint64 // in clock ticks since the boot
	used        uint64 // CPU time in clock ticks
}

// Started returns the start time of a process in clock ticks since boot, as in
// Entry.Started.
func Started(pid int) (uint64, error) {
	p, err := readStat(pid)
	return p.started, err
}

var errStat = errors.New("has another form than proc(5) states")

// readStat reads the entry of one process.
func readStat(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	p, err := parseStat(text)
	if err != nil {
		return process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return p, nil
}

// parseStat parses /proc/PID/stat. The name of the program may contain anything.
func parseStat(text []byte) (process, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, errStat
	}
	const state, parent, user, system, started = 0, 1, 11, 12, 19
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) <= started {
		return process{}, errStat
	}
	p := process{command: string(text[open+1 : end]), state: stateOf(fields[state])}
	var errs [5]error
	var inUser, inSystem uint64
	p.pid, errs[0] = strconv.Atoi(strings.TrimSpace(string(text[:open])))
	p.parent, errs[1] = strconv.Atoi(fields[parent])
	p.started, errs[2] = strconv.ParseUint(fields[started], 10, 64)
	inUser, errs[3] = strconv.ParseUint(fields[user], 10, 64)
	inSystem, errs[4] = strconv.ParseUint(fields[system], 10, 64)
	p.used = inUser + inSystem
	if errors.Join(errs[:]...) != nil {
		return process{}, errStat
	}
	return p, nil
}

// stateOf returns the state of a process by the kernel's letter.
func stateOf(letter string) stacks.State {
	switch letter {
	case "R":
		return stacks.Running
	case "T":
		return stacks.Stopped
	case "t":
		return stacks.Traced
	case "D":
		return stacks.Disk
	case "Z", "X", "x":
		return stacks.Dead
	}
	return stacks.Sleeping
}

// list returns the processes that this one sees, by their IDs. Those that end meanwhile are
// missing.
func list() map[int]process {
	all := map[int]process{}
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return all
	}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if p, err := readStat(pid); err == nil {
			all[pid] = p
		}
	}
	return all
}

// descendants returns the descendants of a process, parents first and otherwise by their
// IDs.
func descendants(all map[int]process, pid int) []process {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	seen := map[int]bool{pid: true}
	for level := []int{pid}; len(level) > 0; {
		var next []process
		for _, parent := range level {
			for _, c := range children[parent] {
				if !seen[c.pid] { // a list that is read during changes may have a loop
					seen[c.pid] = true
					next = append(next, c)
				}
			}
		}
		slices.SortFunc(next, func(a, b process) int { return a.pid - b.pid })
		level = level[:0]
		for _, p := range next {
			level = append(level, p.pid)
		}
		found = append(found, next...)
	}
	return found
}

// userHZ is the number of clock ticks per second in /proc, on all platforms of Kolo.
const userHZ = 100

// age returns the age in clock ticks of a process that was started at a time, 0 if unknown.
func age(started uint64) uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	ticks := uint64(now.Nano()) / (1e9 / userHZ)
	return ticks - min(started, ticks)
}

// syscallOf returns the name of the system call in which the main thread of a process is,
// or "" if it is in none or unknown.
func syscallOf(pid int) string {
	number, _, _ := strings.Cut(readShort(pid, "syscall"), " ")
	n, err := strconv.Atoi(number) // "running" is no number
	if err != nil || n < 0 {       // -1 is a wait outside of system calls
		return ""
	}
	if name := syscallNames[n]; name != "" {
		return name
	}
	return "system call " + number
}

// wchanOf returns the function of the kernel in which the main thread waits, or "".
func wchanOf(pid int) string {
	if name := readShort(pid, "wchan"); name != "0" {
		return name
	}
	return ""
}

// answers reports whether a process writes its stacks into a file on Signal: it has a
// handler, and the file is open. Some programs, such as those in Go, have handlers for all
// signals.
func answers(pid int, file string) bool {
	if !catches(pid) {
		return false
	}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxFiles)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		// Following the link could wait for a file system that does not answer.
		target, err := os.Readlink(filepath.Join(dir.Name(), name))
		return err == nil && filepath.Base(target) == filepath.Base(file)
	})
}

// maxFiles bounds how many open files of a process are looked at.
const maxFiles = 1 << 14

// catches reports whether a process has a handler for Signal.
func catches(pid int) bool { return inMask(pid, "SigCgt:") }

// handles reports whether the main thread of a process runs its handler of Signal, or is
// about to: the kernel blocks the signal meanwhile.
func handles(pid int) bool { return inMask(pid, "SigBlk:", "SigPnd:", "ShdPnd:") }

// pending reports whether a process has received Signal and not begun to handle it.
func pending(pid int) bool { return inMask(pid, "SigPnd:", "ShdPnd:") }

// inMask reports whether Signal is in one of the masks in the status of a process.
func inMask(pid int, masks ...string) bool {
	for line := range strings.Lines(readShort(pid, "status")) {
		for _, mask := range masks {
			if text, ok := strings.CutPrefix(line, mask); ok && hasSignal(text) {
				return true
			}
		}
	}
	return false
}

// hasSignal reports whether Signal is in a mask of /proc/PID/status.
func hasSignal(mask string) bool {
	bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
	return err == nil && bits&(1<<(uint(Signal)-1)) != 0
}

// readShort returns the beginning of a file of /proc, "" if it cannot be read.
func readShort(pid int, name string) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
