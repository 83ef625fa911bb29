// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A launcher is one of the two that are compared, or none.
type launcher struct {
	Name string
	// command is nil where the script is started by itself.
	command func(*options) []string
}

var (
	upstream = launcher{"horovodrun", func(o *options) []string {
		// With hosts that are all this machine it must be told the interface:
		// it looks for a common one only among two hosts or more.
		return []string{filepath.Join(o.root, ".venv/bin/horovodrun"), "--gloo", "--network-interface", "lo"}
	}}
	kolo = launcher{"Kolo", func(o *options) []string {
		return []string{filepath.Join(o.root, "bin/nomad-driver-horovod"), "run", "--network-interface", "lo"}
	}}
	launchers = []launcher{upstream, kolo}
	none      = launcher{"no launcher", nil}
)

// A session is one training job under a launcher, with what it has recorded.
type session struct {
	launcher launcher
	dir      string
	cmd      *exec.Cmd
	ended    chan struct{}
	follower *train.Follower
	record   train.Record
}

// stepTime is what a step takes at least, as in a small model's training.
const stepTime = 50 * time.Millisecond

// start runs train.py on hosts, which are lines of a host list.
func start(l launcher, o *options, hosts []string, args ...string) (*session, error) {
	dir, err := os.MkdirTemp("", "kolo-bench-")
	if err != nil {
		return nil, err
	}
	s := &session{launcher: l, dir: dir, ended: make(chan struct{}), follower: train.Follow(filepath.Join(dir, "records"))}
	if _, err := s.setHosts(hosts...); err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "discover.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\ncat %s/hosts\n", dir), 0o755); err != nil {
		return nil, err
	}
	slots := 0
	for _, h := range hosts {
		n, _ := strconv.Atoi(h[strings.LastIndexByte(h, ':')+1:])
		slots += n
	}
	var command []string
	if l.command != nil {
		command = append(l.command(o),
			"-np", strconv.Itoa(slots), "--min-np", "1", "--max-np", "4", "--host-discovery-script", script)
	}
	command = append(command, filepath.Join(o.root, ".venv/bin/python"), filepath.Join(o.root, "e2e/train/train.py"),
		"--epochs=1000000", "--samples=4800", "--records="+filepath.Join(dir, "records"))
	command = append(command, args...)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Ended by stop, which also sees to its children.
	s.cmd = exec.Command(command[0], command[1:]...) //nolint:noctx // see above
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "PATH="+filepath.Join(o.root, ".venv/bin")+":"+os.Getenv("PATH"))
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	return s, nil
}

// setHosts replaces the host list at one instant, which it returns.
func (s *session) setHosts(hosts ...string) (time.Time, error) {
	part := filepath.Join(s.dir, "hosts.part")
	if err := os.WriteFile(part, []byte(strings.Join(hosts, "\n")+"\n"), 0o644); err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	return now, os.Rename(part, filepath.Join(s.dir, "hosts"))
}

// wait returns what found finds in the record, as soon as it does.
func (s *session) wait(ctx context.Context, what string, limit time.Duration, found func(train.Record) *train.Event) (train.Event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no %s within %s", what, limit))
	defer cancel()
	for {
		more, err := s.follower.Next()
		if err != nil {
			return train.Event{}, err
		}
		s.record = append(s.record, more...)
		if e := found(s.record); e != nil {
			return *e, nil
		}
		select {
		case <-ctx.Done():
			return train.Event{}, context.Cause(ctx)
		case <-s.ended:
			return train.Event{}, fmt.Errorf("the job ended (%s) while there was no %s", s.cmd.ProcessState, what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// steady waits until a ring of n has trained for a while. Upstream loses a
// change that comes too soon after another.
func (s *session) steady(ctx context.Context, n int, for_ time.Duration) error {
	_, err := s.wait(ctx, fmt.Sprintf("steady ring of %d", n), 2*time.Minute, func(r train.Record) *train.Event {
		steps := r.Leading()
		if len(steps) == 0 || steps[len(steps)-1].Size != n {
			return nil
		}
		last := steps[len(steps)-1]
		for i := len(steps) - 1; i >= 0 && steps[i].Size == n; i-- {
			if last.Time().Sub(steps[i].Time()) >= for_ {
				return &last
			}
		}
		return nil
	})
	return err
}

// stop ends the job and all its processes.
func (s *session) stop() error {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
	}
	// The training processes have process groups of their own.
	for _, pid := range s.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.ended
	return os.RemoveAll(s.dir)
}

// fail keeps the job's log and says where.
func (s *session) fail(err error) error {
	kept := filepath.Join(os.TempDir(), filepath.Base(s.dir)+".log")
	return errors.Join(fmt.Errorf("%s: %w (log: %s)", s.launcher.Name, err, kept),
		os.Rename(filepath.Join(s.dir, "log"), kept))
}

// processes are those that were started with a file of this session.
func (s *session) processes() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && strings.Contains(string(cmdline), s.dir) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}
