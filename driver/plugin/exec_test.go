// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	dproto "github.com/hashicorp/nomad/plugins/drivers/proto"
	"github.com/shoenig/test/must"
)

func TestExecTask(t *testing.T) {
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `exec sleep 1000`)
			h.start(t, c)
			r, err := h.ExecTask(c.ID, []string{"/bin/sh", "-c", `echo $NOMAD_JOB_ID; exit 7`}, patience)
			must.NoError(t, err)
			must.Eq(t, "job\n", string(r.Stdout))
			must.Eq(t, 7, r.ExitResult.ExitCode)
			_, err = h.ExecTask(c.ID, nil, patience)
			must.ErrorContains(t, err, "no command")
		})
	}
}

// TestCommandThatTakesTooLong: a command that takes too long does not end the task. If the
// command can be ended, no process of it is left.
func TestCommandThatTakesTooLong(t *testing.T) {
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `exec sleep 1000`)
			h.start(t, c)
			_, err := h.ExecTask(c.ID, []string{"/bin/sh", "-c", `echo $$ > local/pid; exec sleep 1000`}, 2*time.Second)
			if isolation == isolationExec { // the executor of the other gives an exit code
				must.ErrorContains(t, err, "deadline exceeded")
			}
			eventually(t, "the command is ended", func() bool {
				r, err := h.ExecTask(c.ID, []string{"/bin/sh", "-c", `kill -0 $(cat local/pid)`}, patience)
				must.NoError(t, err)
				return r.ExitResult.ExitCode != 0
			})
			status, err := h.InspectTask(c.ID)
			must.NoError(t, err)
			must.Eq(t, drivers.TaskStateRunning, status.State)
		})
	}
}

func TestCommandsBesideATaskAreBounded(t *testing.T) {
	task := &task{confined: &confined{}, checks: make(chan struct{}, 1)}
	task.checks <- struct{}{}
	_, err := task.runCheck([]string{"true"}, patience)
	must.ErrorContains(t, err, "already run next to the task")
}

// TestExecStreaming does the same as `nomad alloc exec` with input, both outputs and an
// exit code, with and without a terminal.
func TestExecStreaming(t *testing.T) {
	for _, isolation := range isolations(t) {
		for name, tty := range map[string]bool{"pipe": false, "terminal": true} {
			t.Run(isolation+"/"+name, func(t *testing.T) {
				h := newHarness(t, noIsolation())
				c := newTaskConfig(t, isolation, `exec sleep 1000`)
				h.start(t, c)
				s := &terminal{tty: tty, input: "typed\n"}
				err := h.driver.ExecTaskStreamingRaw(t.Context(), c.ID, []string{"/bin/sh", "-c", `read line; echo got $line; echo err >&2; exit 43`}, tty, s)
				must.NoError(t, err)
				stdout, stderr, code := s.results()
				must.Eq(t, 43, code)
				if tty { // one stream, with what was typed
					must.StrContains(t, stdout, "got typed\r\n")
					must.StrContains(t, stdout, "err\r\n")
				} else {
					must.Eq(t, "got typed\n", stdout)
					must.Eq(t, "err\n", stderr)
				}
			})
		}
	}
}

// TestIsolatedTaskSeesItsOwn checks what a task with isolation = "exec" can see and do: its
// own files at their host paths, the host's programs read-only, and nothing else.
func TestIsolatedTaskSeesItsOwn(t *testing.T) {
	if err := canIsolate(); err != nil {
		t.Skip(err)
	}
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `
		id -un
		echo x > "$NOMAD_TASK_DIR/x" && cat /local/x
		echo y > /alloc/y && cat "`+"$ALLOC"+`/alloc/y"
		touch /usr/x 2>/dev/null || echo usr is read-only
		test -e /root || echo no root
		echo z > /dev/shm/z && cat /dev/shm/z
		pwd
		exec sleep 0`)
	c.Env["ALLOC"] = c.AllocDir
	must.NoError(t, os.MkdirAll(c.AllocDir+"/alloc", 0o755))
	must.NoError(t, os.Chmod(c.AllocDir+"/alloc", 0o777))
	h.start(t, c)
	r := h.end(t, c.ID)
	must.True(t, r.Successful(), must.Sprintf("%+v: %s", r, output(t, c)))
	must.Eq(t, "nobody\nx\ny\nusr is read-only\nno root\nz\n"+c.TaskDir().Dir+"\n", output(t, c))

	shm := filepath.Join(shmOf(c), c.AllocID, c.Name)
	must.DirExists(t, shm)
	must.NoError(t, h.DestroyTask(c.ID, false))
	must.DirNotExists(t, shm)
}

// TestIsolatedTaskResolvesNames checks the group's dns block.
func TestIsolatedTaskResolvesNames(t *testing.T) {
	if err := canIsolate(); err != nil {
		t.Skip(err)
	}
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `cat /etc/resolv.conf; echo >> /etc/resolv.conf`)
	c.DNS = &drivers.DNSConfig{Servers: []string{"192.0.2.1"}, Searches: []string{"train.test"}, Options: []string{"ndots:2"}}
	h.start(t, c)
	must.NotEq(t, 0, h.end(t, c.ID).ExitCode, must.Sprint("the file is not the task's to change"))
	must.StrHasPrefix(t, "nameserver 192.0.2.1\nsearch train.test\noptions ndots:2\n", output(t, c))
}

// terminal is the user's end of a streaming exec.
type terminal struct {
	tty   bool
	input string
	sent  int

	mu             sync.Mutex
	stdout, stderr strings.Builder
	code           int
}

func (s *terminal) Recv() (*drivers.ExecTaskStreamingRequestMsg, error) {
	var messages []*drivers.ExecTaskStreamingRequestMsg
	if s.tty {
		messages = append(messages, &drivers.ExecTaskStreamingRequestMsg{TtySize: &dproto.ExecTaskStreamingRequest_TerminalSize{Height: 25, Width: 80}})
	}
	messages = append(messages, &drivers.ExecTaskStreamingRequestMsg{Stdin: &dproto.ExecTaskStreamingIOOperation{Data: []byte(s.input)}})
	if !s.tty {
		messages = append(messages, &drivers.ExecTaskStreamingRequestMsg{Stdin: &dproto.ExecTaskStreamingIOOperation{Close: true}})
	}
	if s.sent == len(messages) {
		return nil, io.EOF
	}
	s.sent++
	return messages[s.sent-1], nil
}

func (s *terminal) Send(m *drivers.ExecTaskStreamingResponseMsg) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.Stdout != nil:
		s.stdout.Write(m.Stdout.Data)
	case m.Stderr != nil:
		s.stderr.Write(m.Stderr.Data)
	case m.Exited && m.Result != nil:
		s.code = int(m.Result.ExitCode)
	}
	return nil
}

func (s *terminal) results() (stdout, stderr string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stdout.String(), s.stderr.String(), s.code
}
