// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

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
)

// What a script starts in a session of its own is out of the group kill's
// reach, and keeps the script's output open.
func TestAProcessEndsWithoutWhatItLeavesBehind(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	for name, code := range map[string]int{"failure": 3, "success": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := newSpawner("")
			must.NoError(t, err)
			defer s.close()
			file := filepath.Join(t.TempDir(), "pid")
			p, err := s.start(processSpec{command: "sh", env: []string{"PATH=" + os.Getenv("PATH"), "FILE=" + file},
				// The substitution ends when the session is there, and holds stderr.
				args: []string{"-c", `echo $(setsid sh -c 'echo $$; exec sleep 600 >&2' &) >$FILE; exit ` + strconv.Itoa(code)}})
			must.NoError(t, err)
			select {
			case <-p.done:
			case <-time.After(time.Minute):
				_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
				t.Fatal("the end of the process was not noticed")
			}
			pid, err := os.ReadFile(file)
			must.NoError(t, err)
			left, err := strconv.Atoi(strings.TrimSpace(string(pid)))
			must.NoError(t, err)
			must.NoError(t, syscall.Kill(left, syscall.SIGKILL))
			success, _, text := p.status()
			must.Eq(t, code == 0, success, must.Sprint(text))
		})
	}
}
