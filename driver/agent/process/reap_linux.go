// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapEvery is the shortest interval between two scans of all processes.
const reapEvery = time.Second

// own holds the children of this process that a Process waits for.
var own = children{pids: map[int]bool{}}

// children holds the child processes that ReapOrphans must not reap. A child is among
// them from its start on, because both start and the reaper hold the lock.
type children struct {
	mu   sync.Mutex
	pids map[int]bool
}

func (c *children) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		c.pids[cmd.Process.Pid] = true
	}
	return err
}

func (c *children) wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pids, cmd.Process.Pid)
}

// ReapOrphans reaps processes that lost their parent and became children of this one, until
// ctx ends. In a container, orphans become children of the first process. ReapOrphans
// ignores processes that a Spawner started; this process must start no others.
func ReapOrphans(ctx context.Context) {
	ended := make(chan os.Signal, 1) // several signals during a scan cause one more scan
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		own.reapOthers()
		select {
		case <-ctx.Done():
			return
		case <-time.After(reapEvery):
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
	}
}

// reapOthers reaps children that have ended and that no Process waits for.
func (c *children) reapOthers() {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	self := os.Getpid()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || c.pids[pid] || !zombieOf(self, pid) {
			continue
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// zombieOf reports whether a process is a child of parent that has ended.
func zombieOf(parent, pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// pid (name) state parent …: the name may hold spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 1 && string(fields[0]) == "Z" && string(fields[1]) == strconv.Itoa(parent)
}
