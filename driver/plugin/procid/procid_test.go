// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package procid

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
)

// TestKillEndsTheProcessThatWasStarted has a process ID that was reused by another
// process, possibly of another task.
func TestKillEndsTheProcessThatWasStarted(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "1000")
		// What every isolated task's agent has in its environment.
		cmd.Env = []string{"KOLO_AGENT_CONFIG=/secrets/kolo-agent.json"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		must.NoError(t, cmd.Start())
		return cmd
	}
	ours, other := start(), start()
	started, err := Start(ours.Process.Pid)
	must.NoError(t, err)

	for name, mark := range map[string]string{
		"another boot": "0/" + started, "another time": started + "1", "a task of an earlier driver": "",
	} {
		t.Run(name, func(t *testing.T) {
			must.NoError(t, Kill(other.Process.Pid, mark))
			must.NoError(t, other.Process.Signal(syscall.Signal(0)))
		})
	}
	must.NoError(t, Kill(ours.Process.Pid, started))
	must.ErrorContains(t, ours.Wait(), "killed")
	must.NoError(t, Kill(ours.Process.Pid, started), must.Sprint("it has ended"))
	must.NoError(t, other.Process.Kill())
	must.Error(t, other.Wait())
}
