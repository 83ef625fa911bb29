// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
)

// outputGrace is how long the output of a process is read after the process has ended. A
// child process in another session may hold its streams open.
const outputGrace = 2 * time.Second

// Spec specifies a process.
type Spec struct {
	Command string
	Args    []string
	Dir     string
	Env     []string
	// Prefix precedes each line of its output.
	Prefix string
	// Log is a file for its output alone. If it is empty, there is none.
	Log            string
	Stdout, Stderr io.Writer
	// Watch is called with each line of stderr, as printable text.
	Watch func(line string)
}

// Spawner starts processes from one thread that lives as long as the agent. The kernel
// sends a child's parent-death signal when the thread that started it ends, not when the
// process ends.
type Spawner struct{ work chan func() }

// NewSpawner returns a spawner whose processes see hostname as the machine's name, unless
// it is empty. If the name can't be set, it returns an error and a spawner that works.
func NewSpawner(hostname string) (*Spawner, error) {
	s := &Spawner{work: make(chan func())}
	named := make(chan error)
	go func() {
		// The thread is not unlocked, so it ends with the goroutine, and its host name with
		// it.
		runtime.LockOSThread()
		named <- hostnet.SetName(hostname)
		for f := range s.work {
			f()
		}
	}()
	return s, <-named
}

// Close ends the spawner's thread. The processes that it started are killed.
func (s *Spawner) Close() { close(s.work) }

// Start starts a process. Its whole process group dies with the agent.
func (s *Spawner) Start(spec Spec) (*Process, error) {
	cmd := exec.Command(spec.Command, spec.Args...) //nolint:noctx // it outlives its caller, and is stopped by signals
	cmd.Dir, cmd.Env = spec.Dir, spec.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	s.work <- func() { started <- own.start(cmd) }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Command, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	var log io.WriteCloser
	if spec.Log != "" {
		log = &lumberjack.Logger{Filename: spec.Log, MaxSize: 10, MaxBackups: 1}
	}
	var readers sync.WaitGroup
	readers.Go(func() { copyLines(stdout, spec.Prefix, spec.Stdout, log, nil) })
	readers.Go(func() {
		copyLines(stderr, spec.Prefix, spec.Stderr, log, func(line string) {
			p.keep(line)
			if spec.Watch != nil {
				spec.Watch(line)
			}
		})
	})
	go func() {
		p.wait(&readers, stdout, stderr)
		if log != nil {
			_ = log.Close()
		}
		close(p.done)
	}()
	return p, nil
}

// wait waits for the process and for the readers of its output. A grandchild may hold the
// streams open, so wait kills the process group as soon as the process itself has ended.
// Wait would notice that only after the streams are read. wait does not wait for processes
// that have left the group.
func (p *Process) wait(readers *sync.WaitGroup, streams ...io.Reader) {
	if waitNoReap(p.PID()) == nil {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		for _, r := range streams {
			if f, ok := r.(*os.File); ok {
				_ = f.SetReadDeadline(time.Now().Add(outputGrace))
			}
		}
	}
	readers.Wait()
	own.wait(p.cmd)
}
