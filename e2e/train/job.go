// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package train

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// A Job is a framework's script that runs on this machine, without Nomad. It runs without
// a launcher, or under a launcher that learns its hosts from a discovery script.
type Job struct {
	// Record is what has been read of the record so far.
	Record Record

	dir      string
	cmd      *exec.Cmd
	ended    chan struct{}
	follower *Follower
}

// A Launch specifies a Job.
type Launch struct {
	// Root is the project's root.
	Root string
	// Framework is the training framework.
	Framework Framework
	// Launcher is a command that takes horovodrun's flags; nil starts the script itself.
	Launcher []string
	// Hosts are the initial lines of the host list, "name:slots".
	Hosts []string
	// Args are the script's arguments.
	Args []string
}

// Start starts a job in a directory of its own.
func Start(l Launch) (*Job, error) {
	dir, err := os.MkdirTemp("", "kolo-train-")
	if err != nil {
		return nil, err
	}
	j := &Job{dir: dir, ended: make(chan struct{}), follower: Follow(filepath.Join(dir, "records"))}
	if _, err := j.SetHosts(l.Hosts...); err != nil {
		return nil, err
	}
	script := j.File("discover.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\ncat %s/hosts\n", dir), 0o755); err != nil {
		return nil, err
	}
	var command []string
	if len(l.Launcher) > 0 {
		command = append(append(command, l.Launcher...), "--host-discovery-script", script)
	}
	command = append(append(command, l.Framework.Command(l.Root)...),
		"--epochs=1000000", "--records="+filepath.Join(dir, "records"), "--stop-file="+j.File("stop"))
	command = append(command, l.Args...)
	log, err := os.Create(j.Log())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Stop ends it, including its child processes.
	j.cmd = exec.Command(command[0], command[1:]...) //nolint:noctx // see above
	j.cmd.Dir = dir
	j.cmd.Env = l.Framework.Environ(l.Root)
	j.cmd.Stdout, j.cmd.Stderr = log, log
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := j.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(j.ended)
		_ = j.cmd.Wait()
	}()
	return j, nil
}

// File returns the path of a file in the job's directory.
func (j *Job) File(name string) string { return filepath.Join(j.dir, name) }

// Log returns the path of the file with the output of launcher and processes.
func (j *Job) Log() string { return j.File("log") }

// PID returns the launcher's process ID.
func (j *Job) PID() int { return j.cmd.Process.Pid }

// Ended returns a channel that is closed when the launcher has ended.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Exit returns how the launcher ended.
func (j *Job) Exit() *os.ProcessState {
	<-j.ended
	return j.cmd.ProcessState
}

// SetHosts replaces the host list atomically, and returns the time at which it did so.
func (j *Job) SetHosts(hosts ...string) (time.Time, error) {
	part := j.File("hosts.part")
	if err := os.WriteFile(part, []byte(strings.Join(hosts, "\n")+"\n"), 0o644); err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	return now, os.Rename(part, j.File("hosts"))
}

// Finish makes the script end after its current epoch.
func (j *Job) Finish() error { return os.WriteFile(j.File("stop"), nil, 0o644) }

// Update appends the events that were recorded since its last call to Record.
func (j *Job) Update() error {
	more, err := j.follower.Next()
	j.Record = append(j.Record, more...)
	return err
}

// Wait returns the event that found finds in the record, as soon as there is one. It
// returns an error after limit, and when the job has ended.
func (j *Job) Wait(ctx context.Context, what string, limit time.Duration, found func(Record) *Event) (Event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no %s within %s", what, limit))
	defer cancel()
	for {
		if err := j.Update(); err != nil {
			return Event{}, err
		}
		if e := found(j.Record); e != nil {
			return *e, nil
		}
		select {
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		case <-j.ended:
			return Event{}, fmt.Errorf("the job ended (%s) while there was no %s", j.cmd.ProcessState, what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Stop ends the job and all its processes, and removes its directory.
func (j *Job) Stop() error {
	_ = syscall.Kill(-j.PID(), syscall.SIGTERM)
	select {
	case <-j.ended:
	case <-time.After(10 * time.Second):
	}
	// The training processes have process groups of their own.
	for _, pid := range j.Processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(-j.PID(), syscall.SIGKILL)
	<-j.ended
	return os.RemoveAll(j.dir)
}

// Keep moves a file of the job out of its directory, and returns the new path.
func (j *Job) Keep(name string) (string, error) {
	kept := filepath.Join(os.TempDir(), filepath.Base(j.dir)+"-"+name)
	return kept, os.Rename(j.File(name), kept)
}

// Processes returns the processes that run the script, including shells that are about to
// start it, but not the launchers.
func (j *Job) Processes() []int {
	var pids []int
	for _, p := range cluster.Processes(func(p cluster.Process) bool {
		command := strings.Join(p.Args, " ")
		return p.PID != j.PID() && strings.Contains(command, "train.py") && strings.Contains(command, j.dir) && !slices.Contains(p.Args, "--host-discovery-script") &&
			!slices.Contains(p.Args, "torch.distributed.run")
	}) {
		pids = append(pids, p.PID)
	}
	slices.Sort(pids)
	return pids
}
