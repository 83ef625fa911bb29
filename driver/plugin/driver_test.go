// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/sandbox/privatedirs"
)

// isolations returns the isolations that can be tested here.
func isolations(t *testing.T) []string {
	if err := canIsolate(); err != nil {
		t.Logf(`isolation "exec" is not tested: %v`, err)
		return []string{isolationNone}
	}
	return []string{isolationNone, isolationExec}
}

func TestTaskRunsToItsEnd(t *testing.T) {
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `echo out; echo err >&2; test -r "$CONFIG" && echo config; touch "$LOGS/x" && echo logs`)
			h.start(t, c)
			r := h.end(t, c.ID)
			must.True(t, r.Successful(), must.Sprintf("%+v, output %q", r, output(t, c)))
			must.Eq(t, "out\nconfig\nlogs\nerr\n", output(t, c))
			status, err := h.InspectTask(c.ID)
			must.NoError(t, err)
			must.Eq(t, drivers.TaskStateExited, status.State)
			must.NoError(t, h.DestroyTask(c.ID, false))
			_, err = h.InspectTask(c.ID)
			must.ErrorContains(t, err, drivers.ErrTaskNotFound.Error())
		})
	}
}

func TestTaskFailsWithTheAgentsLastWords(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `echo '{"message":"slot 0 exited 3"}' >> "$EVENTS"; exit 3`)
	h.start(t, c)
	r := h.end(t, c.ID)
	must.Eq(t, 3, r.ExitCode)
	must.EqError(t, r.Err, "slot 0 exited 3")
}

func TestTaskKilledBySignal(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `echo '{"message":"ring 1"}' >> "$EVENTS"; kill -KILL $$`)
	h.start(t, c)
	r := h.end(t, c.ID)
	must.Eq(t, 137, r.ExitCode)
	must.Eq(t, 9, r.Signal)
	must.NoError(t, r.Err, must.Sprint("its last event is not why it ended"))
}

func TestAgentConfigIsForTheTaskAlone(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `true`)
	h.start(t, c)
	h.end(t, c.ID)
	path := filepath.Join(c.TaskDir().Dir, configPath)
	fi, err := os.Stat(path)
	must.NoError(t, err)
	must.Eq(t, os.FileMode(0o600), fi.Mode().Perm())
	data, err := os.ReadFile(path)
	must.NoError(t, err)
	var got agentconfig.Config
	must.NoError(t, json.Unmarshal(data, &got))
	must.Eq(t, filepath.Join(c.TaskDir().LocalDir, "kolo/events.jsonl"), got.EventFile)
	must.Eq(t, c.AllocID, got.AllocID)
}

func TestStartRefusesWhatCannotRun(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `true`)
	must.NoError(t, c.EncodeConcreteDriverConfig(map[string]any{"command": "/bin/sh", "isolation": "none", "slots": 0, "service": "ring"}))
	_, _, err := h.StartTask(c)
	must.ErrorContains(t, err, "slots = 0: must be at least 1")
	_, err = h.InspectTask(c.ID)
	must.ErrorContains(t, err, drivers.ErrTaskNotFound.Error())
}

func TestStartRefusesNetworksThatAreGone(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `true`)
	c.NetworkIsolation = &drivers.NetworkIsolationSpec{Mode: drivers.NetIsolationModeGroup, Path: "/var/run/netns/x"}
	_, _, err := h.StartTask(c)
	must.ErrorContains(t, err, "network.mode: the group's network can't be looked at")
}

func TestDeniedUsers(t *testing.T) {
	own := strconv.Itoa(os.Geteuid())
	h := newHarness(t, &Config{Enabled: true, AllowIsolationNone: true, DeniedHostUids: own})
	_, _, err := h.StartTask(newTaskConfig(t, isolationNone, `true`))
	must.ErrorContains(t, err, "user = ", must.Sprint("a task without a user runs as the client's"))
}

func TestDisabledDriver(t *testing.T) {
	h := newHarness(t, &Config{Enabled: false})
	_, _, err := h.StartTask(newTaskConfig(t, isolationNone, `true`))
	must.ErrorContains(t, err, "disabled")
}

func TestStopTaskLetsTheAgentLeave(t *testing.T) {
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `trap 'echo left; cat "$STOP" > "$LOGS/stop"; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
			h.start(t, c)
			eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "ready") })
			// Whatever the job's kill_signal is, the agent is asked to leave.
			must.NoError(t, h.StopTask(c.ID, patience, "SIGUSR1"))
			must.Eq(t, 0, h.end(t, c.ID).ExitCode)
			must.Eq(t, "ready\nleft\n", output(t, c))
			note, err := os.ReadFile(filepath.Join(c.TaskDir().Dir, logPath, "stop"))
			must.NoError(t, err)
			kill, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(note)))
			must.NoError(t, err)
			must.Between(t, patience/2, time.Until(kill), patience)
		})
	}
}

// TestTaskStartsAgainInPlace does the same as `nomad alloc restart`: it starts the task in
// the same allocation directory, with everything that the first run left in it.
func TestTaskStartsAgainInPlace(t *testing.T) {
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `echo '{"message":"began"}' >> "$EVENTS"; test ! -e "$STOP" && echo ready; exec sleep 1000`)
			events, err := h.driver.TaskEvents(t.Context())
			must.NoError(t, err)
			for range 2 {
				must.NoError(t, os.Truncate(c.StdoutPath, 0)) // Nomad would read a pipe
				h.start(t, c.Copy())
				must.Eq(t, "began", nextEvent(t, events).Message)
				eventually(t, "the task is ready", func() bool { return output(t, c) == "ready\n" })
				must.NoError(t, h.StopTask(c.ID, 50*time.Millisecond, ""))
				must.NoError(t, h.DestroyTask(c.ID, false))
			}
		})
	}
}

func TestStopTaskKillsWhoDoesNotLeave(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	h.start(t, c)
	eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "ready") })
	must.NoError(t, h.StopTask(c.ID, 50*time.Millisecond, "SIGTERM"))
	must.Eq(t, 9, h.end(t, c.ID).Signal)
}

func TestDestroyRunningTaskNeedsForce(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `exec sleep 1000`)
	h.start(t, c)
	must.ErrorContains(t, h.DestroyTask(c.ID, false), "running")
	must.NoError(t, h.DestroyTask(c.ID, true))
	must.ErrorContains(t, h.DestroyTask(c.ID, true), drivers.ErrTaskNotFound.Error())
}

func TestWaitTaskHonoursItsContext(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `exec sleep 1000`)
	h.start(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := h.driver.WaitTask(ctx, c.ID)
	must.NoError(t, err)
	cancel()
	select {
	case r, open := <-ch:
		must.False(t, open, must.Sprintf("got %v", r))
	case <-time.After(patience):
		t.Fatal("WaitTask ignores its context")
	}
}

func TestSignalTask(t *testing.T) {
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `trap 'echo usr1; exit 0' USR1; echo ready; while :; do sleep 0.05; done`)
	h.start(t, c)
	eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "ready") })
	must.ErrorContains(t, h.SignalTask(c.ID, "SIGNONSENSE"), `"SIGNONSENSE" is unknown`)
	must.NoError(t, h.SignalTask(c.ID, "SIGUSR1"))
	must.True(t, h.end(t, c.ID).Successful())
}

func TestTaskStats(t *testing.T) {
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `exec sleep 1000`)
			h.start(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			stats, err := h.TaskStats(ctx, c.ID, 10*time.Millisecond)
			must.NoError(t, err)
			for s := range stats {
				if s.ResourceUsage.MemoryStats.RSS > 0 {
					return
				}
			}
			t.Fatal("no memory was ever reported")
		})
	}
}

// TestRecoverTask kills the plugin, not the task, and lets another find it.
func TestRecoverTask(t *testing.T) {
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			first := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `echo '{"message":"one"}' >> "$EVENTS"
				until test -e "$NOMAD_TASK_DIR/go"; do sleep 0.05; done
				echo '{"message":"two"}' >> "$EVENTS"
				until test -e "$NOMAD_TASK_DIR/end"; do sleep 0.05; done; exit 4`)
			events, err := first.driver.TaskEvents(t.Context())
			must.NoError(t, err)
			handle := first.start(t, c)
			must.Eq(t, "one", nextEvent(t, events).Message)
			offset := filepath.Join(privateDirsOf(c).State, privatedirs.EventOffset)
			eventually(t, "the event is noted", func() bool { _, err := os.Stat(offset); return err == nil })
			first.kill()

			second := newHarness(t, noIsolation())
			events, err = second.driver.TaskEvents(t.Context())
			must.NoError(t, err)
			must.NoError(t, second.RecoverTask(handle))
			must.NoError(t, second.RecoverTask(handle), must.Sprint("again is no error"))
			status, err := second.InspectTask(c.ID)
			must.NoError(t, err)
			must.Eq(t, drivers.TaskStateRunning, status.State)
			must.NoError(t, os.WriteFile(filepath.Join(c.TaskDir().LocalDir, "go"), nil, 0o644))
			must.Eq(t, "two", nextEvent(t, events).Message, must.Sprint("neither repeated nor missed"))
			must.NoError(t, os.WriteFile(filepath.Join(c.TaskDir().LocalDir, "end"), nil, 0o644))
			must.Eq(t, 4, second.end(t, c.ID).ExitCode)
			must.NoError(t, second.DestroyTask(c.ID, false))
		})
	}
}

func TestRecoverTaskThatEndedMeanwhile(t *testing.T) {
	first := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `exit 5`)
	handle := first.start(t, c)
	must.Eq(t, 5, first.end(t, c.ID).ExitCode)
	first.kill()
	second := newHarness(t, noIsolation())
	must.NoError(t, second.RecoverTask(handle))
	must.Eq(t, 5, second.end(t, c.ID).ExitCode)
	must.NoError(t, second.DestroyTask(c.ID, false))
}

// TestRecoverWithoutExecutor makes sure that an agent that no one can reach does not
// continue training next to the one that Nomad starts next.
func TestRecoverWithoutExecutor(t *testing.T) {
	first := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `echo $$ > "$NOMAD_TASK_DIR/pid"; exec sleep 1000`)
	handle := first.start(t, c)
	status, err := first.InspectTask(c.ID)
	must.NoError(t, err)
	pid := status.DriverAttributes["pid"]
	var state handleState
	must.NoError(t, handle.GetDriverState(&state))
	first.kill()
	must.NoError(t, syscall.Kill(state.Reattach.Pid, syscall.SIGKILL))

	second := newHarness(t, noIsolation())
	eventually(t, "recovery fails and the agent is gone", func() bool {
		if err := second.RecoverTask(handle); err == nil {
			t.Fatal("recovered a task whose executor is dead")
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestRecoverRefusesWhatItCannotRead(t *testing.T) {
	h := newHarness(t, noIsolation())
	newer := drivers.NewTaskHandle(handleVersion + 1)
	newer.Config = newTaskConfig(t, isolationNone, `true`)
	must.ErrorContains(t, h.RecoverTask(newer), "newer driver")
	broken := drivers.NewTaskHandle(handleVersion)
	broken.Config, broken.DriverState = newer.Config, []byte("?")
	must.ErrorContains(t, h.RecoverTask(broken), "decode the task's handle")
}

func nextEvent(t *testing.T, events <-chan *drivers.TaskEvent) *drivers.TaskEvent {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		t.Fatal("no event")
		return nil
	}
}
