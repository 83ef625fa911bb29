// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// Output runs a program and returns its output. More output than a number of bytes is an error
// and ends the program. If ctx ends, Output kills the program with its process group.
func (s *Spawner) Output(ctx context.Context, most int, env []string, program string, args ...string) ([]byte, error) {
	name := filepath.Base(program)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputGrace // a process that has left the group may hold the streams open
	out, problem := &bounded{most: most, refuses: true}, &bounded{most: plaintext.Limit}
	cmd.Stdout, cmd.Stderr = out, problem
	started := make(chan error)
	s.work <- func() { started <- own.start(cmd) }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	own.wait(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s has not ended: %w", name, ctx.Err())
	case out.cut:
		return nil, fmt.Errorf("%s: %w", name, errLong)
	case cmd.ProcessState == nil:
		return nil, fmt.Errorf("%s: its end is unknown", name)
	case !cmd.ProcessState.Success():
		return nil, fmt.Errorf("%s: %s: %s", name, cmd.ProcessState, plaintext.Line(problem.text.String(), plaintext.Limit))
	}
	return out.text.Bytes(), nil
}

var errLong = errors.New("its output is too long")

// bounded is a buffer that drops or refuses all after a number of bytes. It does not embed the
// buffer, whose other methods have no limit.
type bounded struct {
	text    bytes.Buffer
	most    int
	refuses bool
	cut     bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.text.Len()
	b.cut = b.cut || len(p) > room
	b.text.Write(p[:min(len(p), room)])
	if b.cut && b.refuses {
		return 0, errLong
	}
	return len(p), nil
}
