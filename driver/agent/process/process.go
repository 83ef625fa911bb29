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

// Process is a training process and the processes that it started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its output is read

	mu   sync.Mutex
	tail []string
}

// Done returns a channel that is closed when the process has ended and its output is read.
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

// PID returns the ID of the process, which is also the ID of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the whole process group.
func (p *Process) Signal(sig syscall.Signal) {
	if !p.Ended() {
		_ = syscall.Kill(-p.PID(), sig)
	}
}

// SignalAlone sends a signal to the process, and not to the processes that it started:
// a worker process of a data loader may not expect it.
func (p *Process) SignalAlone(sig syscall.Signal) {
	if !p.Ended() {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Stop ends the process with SIGTERM, and with SIGKILL after killGrace. With kill, it sends
// SIGKILL at once.
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

// Exit returns how the process ended. Call it after Done is closed.
func (p *Process) Exit() Exit { return Exit{p.cmd.ProcessState.Sys().(syscall.WaitStatus)} }

// Exit states how a process ended.
type Exit struct{ syscall.WaitStatus }

// Success reports whether the process exited with code 0.
func (e Exit) Success() bool { return e.Exited() && e.ExitStatus() == 0 }

// By reports whether the signal ended the process. If the process is a shell, it is enough
// that the signal ended the shell's command: the exit code is then 128 plus the signal's
// number.
func (e Exit) By(sig syscall.Signal) bool {
	return e.Signaled() && e.Signal() == sig || e.ExitStatus() == 128+int(sig)
}

// Aborted reports whether SIGABRT ended the process or, if the process is a shell, the
// shell's command. The caller names the library that aborts its own process. Aborted
// returns this name as the reason if SIGABRT ended the process itself, and otherwise "".
func (e Exit) Aborted(whose string) (aborted bool, why string) {
	if e.Signaled() && e.Signal() == syscall.SIGABRT {
		why = whose
	}
	return e.By(syscall.SIGABRT), why
}

// String describes the end for messages.
func (e Exit) String() string {
	if e.Signaled() {
		return fmt.Sprintf("signal %d (%s)", e.Signal(), e.Signal())
	}
	return fmt.Sprintf("exit code %d", e.ExitStatus())
}
