// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

const (
	// threadName is the beginning of the kernel's name of the thread that writes stacks. The
	// descriptor of the pipe that it reads follows. The Python package has the same name.
	threadName = "kolo-ask-"
	// threadTime is how long the thread has to answer. Other threads that run Python code leave
	// it the GIL within milliseconds.
	threadTime = time.Second
	// keptTime is the CPU time in clock ticks that a process uses meanwhile if native code keeps
	// the GIL. Python code stops for a thread that waits for the GIL after 5 ms. A process that
	// gets no CPU answers late, too.
	keptTime = userHZ / 10
)

var errNoThread = errors.New("the process has no thread for it")

// askThread asks a thread of a process for the stacks, and returns the CPU time that the process
// has used until then. The package kolo starts this thread. It holds the GIL while it writes, so
// it cannot crash the process.
func askThread(p *target) (used uint64, err error) {
	pipe := pipeOf(p.pid)
	if pipe < 0 {
		return 0, errNoThread
	}
	before, err := readStat(p.pid)
	if err != nil || before.started != p.started {
		return 0, errGone
	}
	return before.used, request(fmt.Sprintf("/proc/%d/fd/%d", p.pid, pipe))
}

// firstAnswer waits for an answer, for at most a time.
func firstAnswer(ctx context.Context, f *os.File, pid int, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return answer(ctx, f, pid)
}

// request writes into a pipe. The process chooses what is there, so nothing else is opened, and
// nothing is waited for.
func request(path string) error {
	if target, err := os.Readlink(path); err != nil || !strings.HasPrefix(target, "pipe:[") {
		return errNoThread
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("ask the thread: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.Write(fd, []byte{1}); err != nil && !errors.Is(err, unix.EAGAIN) { // full of requests
		return fmt.Errorf("ask the thread: %w", err)
	}
	return nil
}

// pipeOf returns the descriptor of the pipe that the thread of a process reads, or -1 if the
// process has no such thread.
func pipeOf(pid int) int {
	for _, tid := range threadsOf(pid) {
		if text, ok := strings.CutPrefix(readShort(pid, "task/"+tid+"/comm"), threadName); ok {
			if n, err := strconv.Atoi(text); err == nil && n >= 0 {
				return n
			}
		}
	}
	return -1
}

// asleep reports whether no thread of a process runs.
func asleep(pid int) bool {
	threads := threadsOf(pid)
	for _, tid := range threads {
		if t, err := parseStat([]byte(readShort(pid, "task/"+tid+"/stat"))); err == nil && t.state == stacks.Running {
			return false
		}
	}
	return len(threads) > 0
}

// threadsOf returns the IDs of the threads of a process, none if it has ended.
func threadsOf(pid int) []string {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxFiles)
	if err != nil {
		return nil
	}
	return names
}
