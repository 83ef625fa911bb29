// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// killGrace is the time between SIGTERM and SIGKILL of one slot.
const killGrace = 3 * time.Second

// outputGrace is how long the output of a process is read when the process has
// ended: what it started in a session of its own may hold its streams open.
const outputGrace = 2 * time.Second

// maxTail is how many of a process's last stderr lines are kept to explain its
// end.
const maxTail = 8

// process is one running training process and what it started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its output is read

	mu   sync.Mutex
	tail []string
}

// processSpec says how to start a process.
type processSpec struct {
	command string
	args    []string
	dir     string
	env     []string
	prefix  string // put before each line of its output
	log     string // file for its output alone, none when empty
	stdout  io.Writer
	stderr  io.Writer
	// watch sees each line of stderr, as printable text.
	watch func(line string)
}

// spawner starts processes from one thread that lives as long as the agent:
// the kernel sends a child's parent-death signal when the thread that started
// it ends, not the process.
type spawner struct{ work chan func() }

// newSpawner makes a spawner whose processes see hostname as the machine's
// name, unless it is empty. The error says that they do not.
func newSpawner(hostname string) (*spawner, error) {
	s := &spawner{work: make(chan func())}
	named := make(chan error)
	go func() {
		// Not unlocked: the thread ends with the goroutine, and with it its
		// host name.
		runtime.LockOSThread()
		named <- setHostname(hostname)
		for f := range s.work {
			f()
		}
	}()
	return s, <-named
}

func (s *spawner) close() { close(s.work) }

// start starts a process. Its whole process group dies with the agent.
func (s *spawner) start(spec processSpec) (*process, error) {
	cmd := exec.Command(spec.command, spec.args...) //nolint:noctx // it outlives what started it, and is stopped by signals
	cmd.Dir, cmd.Env = spec.dir, spec.env
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
	s.work <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.command, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	var log io.WriteCloser
	if spec.log != "" {
		log = &lumberjack.Logger{Filename: spec.log, MaxSize: 10, MaxBackups: 1}
	}
	var readers sync.WaitGroup
	readers.Add(2)
	go p.copy(&readers, stdout, spec, spec.stdout, log, nil)
	go p.copy(&readers, stderr, spec, spec.stderr, log, func(line string) {
		p.keep(line)
		if spec.watch != nil {
			spec.watch(line)
		}
	})
	go func() {
		// A grandchild may hold the pipes open; the group is told to go when
		// the process itself is gone, which Wait can't tell before the pipes
		// are read. Who has left the group is not waited for.
		state := waitNoReap(cmd.Process.Pid)
		if state == nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			for _, r := range []io.Reader{stdout, stderr} {
				if f, ok := r.(*os.File); ok {
					_ = f.SetReadDeadline(time.Now().Add(outputGrace))
				}
			}
		}
		readers.Wait()
		_ = cmd.Wait()
		if log != nil {
			_ = log.Close()
		}
		close(p.done)
	}()
	return p, nil
}

// copy reads one stream line by line; a line that is too long is cut in parts.
func (p *process) copy(wg *sync.WaitGroup, r io.Reader, spec processSpec, merged io.Writer, log io.Writer, each func(string)) {
	defer wg.Done()
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadSlice('\n')
		if len(line) > 0 {
			out := make([]byte, 0, len(spec.prefix)+len(line)+1)
			out = append(append(out, spec.prefix...), line...)
			if line[len(line)-1] != '\n' {
				out = append(out, '\n')
			}
			if merged != nil {
				_, _ = merged.Write(out)
			}
			if log != nil {
				_, _ = log.Write(line)
			}
			if each != nil {
				each(printable(string(bytes.TrimRight(line, "\r\n"))))
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (p *process) keep(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, line)
	if len(p.tail) > maxTail {
		p.tail = p.tail[1:]
	}
}

// lastWords returns the last line of stderr that says what went wrong.
func (p *process) lastWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.tail) - 1; i >= 0; i-- {
		if l := strings.TrimSpace(p.tail[i]); strings.Contains(l, "Error") || strings.Contains(l, "what():") {
			return l
		}
	}
	if n := len(p.tail); n > 0 {
		return strings.TrimSpace(p.tail[n-1])
	}
	return ""
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends a signal to the whole process group.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.pid(), sig)
	}
}

// stop ends the process: SIGTERM, then SIGKILL after killGrace, or SIGKILL at
// once.
func (p *process) stop(kill bool) {
	if kill {
		p.signal(syscall.SIGKILL)
		return
	}
	p.signal(syscall.SIGTERM)
	go func() {
		t := time.NewTimer(killGrace)
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
			p.signal(syscall.SIGKILL)
		}
	}()
}

// status describes the end of the process: whether it exited 0, whether it
// aborted, and words for people.
func (p *process) status() (success, aborted bool, text string) {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return false, false, p.cmd.ProcessState.String()
	}
	switch {
	case ws.Signaled():
		text = fmt.Sprintf("signal %d (%s)", ws.Signal(), ws.Signal())
		if ws.Signal() == syscall.SIGABRT {
			text += ", Horovod's or Gloo's abort"
		}
		return false, ws.Signal() == syscall.SIGABRT, text
	default:
		// A shell around the script reports a signal as 128 + its number.
		code := ws.ExitStatus()
		return code == 0, code == 128+int(syscall.SIGABRT), fmt.Sprintf("exit code %d", code)
	}
}

// killed says whether SIGKILL ended the process, or what a shell around it ran.
func (p *process) killed() bool {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && (ws.Signaled() && ws.Signal() == syscall.SIGKILL || ws.ExitStatus() == 128+int(syscall.SIGKILL))
}

// lookCommand finds the command as the slots' environment would.
func lookCommand(command, dir string) error {
	if strings.ContainsRune(command, os.PathSeparator) {
		path := command
		if !strings.HasPrefix(path, "/") && dir != "" {
			path = dir + "/" + path
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("command %q: %w", command, err)
		case info.IsDir() || info.Mode()&0o111 == 0:
			return fmt.Errorf("command %q is not executable", command)
		}
		return nil
	}
	if _, err := exec.LookPath(command); err != nil {
		return fmt.Errorf("command %q: %w", command, err)
	}
	return nil
}
