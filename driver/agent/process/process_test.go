// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/sandbox/remotecall"
)

// A process that a script starts in another session escapes the kill of the process group,
// and keeps the script's output open.
func TestAProcessEndsWithoutWhatItLeavesBehind(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	for name, code := range map[string]int{"failure": 3, "success": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := NewSpawner("")
			must.NoError(t, err)
			defer s.Close()
			file := filepath.Join(t.TempDir(), "pid")
			p, err := s.Start(Spec{Command: "sh", Env: []string{"PATH=" + os.Getenv("PATH"), "FILE=" + file},
				// The substitution ends when the session is there, and holds stderr.
				Args: []string{"-c", `echo $(setsid sh -c 'echo $$; exec sleep 600 >&2' &) >$FILE; exit ` + strconv.Itoa(code)}})
			must.NoError(t, err)
			select {
			case <-p.Done():
			case <-time.After(time.Minute):
				_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
				t.Fatal("the end of the process was not noticed")
			}
			pid, err := os.ReadFile(file)
			must.NoError(t, err)
			left, err := strconv.Atoi(strings.TrimSpace(string(pid)))
			must.NoError(t, err)
			must.NoError(t, syscall.Kill(left, syscall.SIGKILL))
			must.Eq(t, code == 0, p.Exit().Success(), must.Sprint(p.Exit()))
		})
	}
}

// A process that is stopped while its connections are shut down has not ended.
func TestATracedProcessHasNotEnded(t *testing.T) {
	if err := remotecall.Possible(); err != nil {
		t.Skip(err)
	}
	s, err := NewSpawner("")
	must.NoError(t, err)
	defer s.Close()
	p, err := s.Start(Spec{Command: "sh", Env: []string{"PATH=" + os.Getenv("PATH")}, Args: []string{"-c", "exec sleep 600"}})
	must.NoError(t, err)
	for range 50 {
		_, err := remotecall.Shutdown(p.PID(), nil)
		must.NoError(t, err)
	}
	must.False(t, p.Ended())
	p.Signal(syscall.SIGTERM)
	<-p.Done()
	must.Eq(t, "signal 15 (terminated)", p.Exit().String())
}

// The last line of a slot is shown to users as the reason why it ended.
func TestLastErrorIsPrintable(t *testing.T) {
	s, err := NewSpawner("")
	must.NoError(t, err)
	defer s.Close()
	lines := make(chan string, 10)
	p, err := s.Start(Spec{Command: "sh", Env: []string{"PATH=" + os.Getenv("PATH")},
		Args:  []string{"-c", `printf '\033]0;owned\007\033[2JError: \033[31mboom\r\342\200\256\n' >&2; exit 1`},
		Watch: func(line string) { lines <- line }})
	must.NoError(t, err)
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("the process has not ended")
	}
	must.Eq(t, "Error: boom", p.LastError())
	must.Eq(t, "Error: boom", <-lines)
}
