// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

const (
	pySpyTime = 3 * time.Second
	// maxPySpy bounds the output of py-spy for one process.
	maxPySpy = 2 << 20
)

var errNoPySpy = errors.New("py-spy is not installed")

// pySpy runs py-spy, which reads the memory of a Python process.
type pySpy struct {
	// refused is set once the kernel does not let py-spy look at a process.
	refused atomic.Bool
}

var errRefused = errors.New("py-spy may not look at processes of this task: it needs CAP_SYS_PTRACE where kernel.yama.ptrace_scope is 1 or a container forbids ptrace")

// dump returns the threads of a process. A process that cannot run is read without being
// paused, because the pause would not end.
func (s *pySpy) dump(ctx context.Context, p process) ([]stacks.Thread, error) {
	if s.refused.Load() {
		return nil, errRefused
	}
	program := find(p.pid)
	if program == "" {
		return nil, errNoPySpy
	}
	args := []string{"dump", "--json", "--pid", strconv.Itoa(p.pid)}
	if p.state != stacks.Running && p.state != stacks.Sleeping {
		args = append(args, "--nonblocking")
	}
	ctx, cancel := context.WithTimeout(ctx, pySpyTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second / 4
	out, problem := &limited{most: maxPySpy}, &limited{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = out, problem
	err := cmd.Run()
	switch text := problem.text.String(); {
	case ctx.Err() != nil:
		resume(p)
		return nil, fmt.Errorf("py-spy has not answered: %w", ctx.Err())
	case err != nil && (strings.Contains(text, "Permission Denied") || strings.Contains(text, "Operation not permitted")):
		s.refused.Store(true)
		return nil, errRefused
	case err != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		return nil, fmt.Errorf("py-spy: %s (%w)", strings.TrimSuffix(line, "."), err)
	}
	return stacks.ParsePySpy(out.text.Bytes())
}

// resume lets a process run on that py-spy may have left stopped. The kernel stops a process
// by SIGSTOP when py-spy attaches to it. If py-spy is killed before that signal arrives, the
// process stays stopped. SIGCONT also drops a SIGSTOP that has not arrived.
func resume(p process) {
	if p.state == stacks.Running || p.state == stacks.Sleeping {
		_ = send(p.pid, p.started, syscall.SIGCONT) // an error means that the process has ended
	}
}

// find returns the path of py-spy: in PATH, or next to the interpreter of a process, such
// as in a virtual environment. It returns "" if there is none.
func find(pid int) string {
	if path, err := exec.LookPath("py-spy"); err == nil {
		return path
	}
	interpreter, _, _ := strings.Cut(readShort(pid, "cmdline"), "\x00")
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // "" if it may not be read
	for _, python := range []string{interpreter, exe} {
		if !filepath.IsAbs(python) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(python), "py-spy")); err == nil {
			return path
		}
	}
	return ""
}

// limited is a buffer that drops all after a number of bytes. It does not embed the buffer,
// whose other methods have no limit.
type limited struct {
	text bytes.Buffer
	most int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.text.Len(); room > 0 {
		l.text.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
