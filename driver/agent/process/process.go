// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// killGrace is the time between SIGTERM and SIGKILL of one process.
const killGrace = 3 * time.Second

// Process is one running training process and what it started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its output is read

	mu   sync.Mutex
	tail []string
}

// Done is closed when the process has ended and its output is read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether Done is closed.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// PID is the number of the process and of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the whole process group.
func (p *Process) Signal(sig syscall.Signal) {
	if !p.Ended() {
		_ = syscall.Kill(-p.PID(), sig)
	}
}

// SignalAlone sends a signal to the process, and not to what it has started: a worker
// process of its data loader may not expect it.
func (p *Process) SignalAlone(sig syscall.Signal) {
	if !p.Ended() {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Stop ends the process: SIGTERM, then SIGKILL after killGrace, or SIGKILL at
// once.
func (p *Process) Stop(kill bool) {
	if kill {
		p.Signal(syscall.SIGKILL)
		return
	}
	p.Signal(syscall.SIGTERM)
	go func() {
		t := time.NewTimer(killGrace)
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
			p.Signal(syscall.SIGKILL)
		}
	}()
}

// Exit is how the process ended; call it when Done is closed.
func (p *Process) Exit() Exit { return Exit{p.cmd.ProcessState.Sys().(syscall.WaitStatus)} }

// Exit is how a process ended.
type Exit struct{ syscall.WaitStatus }

// Success reports whether the process exited with code 0.
func (e Exit) Success() bool { return e.Exited() && e.ExitStatus() == 0 }

// By reports whether the signal ended the process, or what a shell around it ran:
// a shell reports a signal as exit code 128 + its number.
func (e Exit) By(sig syscall.Signal) bool {
	return e.Signaled() && e.Signal() == sig || e.ExitStatus() == 128+int(sig)
}

// Aborted reports whether SIGABRT ended the process, or what a shell around it ran.
// why is whose abort that is, where it is the process's own.
func (e Exit) Aborted(whose string) (aborted bool, why string) {
	if e.Signaled() && e.Signal() == syscall.SIGABRT {
		why = whose
	}
	return e.By(syscall.SIGABRT), why
}

// String describes the end for people.
func (e Exit) String() string {
	if e.Signaled() {
		return fmt.Sprintf("signal %d (%s)", e.Signal(), e.Signal())
	}
	return fmt.Sprintf("exit code %d", e.ExitStatus())
}
