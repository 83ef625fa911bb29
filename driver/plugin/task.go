// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/nomad/drivers/shared/executor"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/driver/plugin/eventtail"
	"github.com/kolo-nomad/kolo/driver/plugin/jobmap"
	"github.com/kolo-nomad/kolo/driver/sandbox/cgroup"
	"github.com/kolo-nomad/kolo/driver/sandbox/confine"
	"github.com/kolo-nomad/kolo/driver/sandbox/privatedirs"
)

// task is a running or ended agent.
type task struct {
	config    *drivers.TaskConfig
	pid       int
	startedAt time.Time
	// cleanup are host paths to remove with the task.
	cleanup []string
	// confined states how its processes are started, nil if they need no
	// confinement.
	confined *confined

	// uses describes the task's GPUs. They are listed in jobs.
	uses jobmap.Use
	jobs *jobmap.Map

	exec     executor.Executor
	executor *goplugin.Client
	tail     *eventtail.Tail
	logger   hclog.Logger
	// checks holds one element for each command that execWithAlarm is running.
	checks chan struct{}

	// done is closed when the agent has ended and outcome is final.
	done chan struct{}

	mu      sync.Mutex
	state   drivers.TaskState
	endedAt time.Time
	outcome drivers.ExitResult
}

// newTask returns the task of a running agent, from its handle.
func newTask(c *drivers.TaskConfig, state *handleState, exec executor.Executor, client *goplugin.Client, logger hclog.Logger) *task {
	return &task{
		config: c, pid: state.Pid, startedAt: state.StartedAt, cleanup: state.Cleanup, confined: state.Confined, uses: state.uses(c),
		exec: exec, executor: client, logger: logger,
		checks: make(chan struct{}, maxChecks), done: make(chan struct{}), state: drivers.TaskStateRunning,
	}
}

// handleState is the driver's part of a task handle. Nomad keeps it across restarts
// and upgrades, so fields may be added but never changed.
type handleState struct {
	Reattach  *pstructs.ReattachConfig
	Pid       int
	StartedAt time.Time
	Cleanup   []string
	// Started distinguishes the agent from a later process with the same Pid.
	Started  string
	Confined *confined
	// GPUs holds NVML's indexes of the task's GPUs. SharedGPUs states that other tasks may use
	// other MIG instances of them.
	GPUs       []int
	SharedGPUs bool
}

// uses returns the GPUs that the task uses.
func (s *handleState) uses(c *drivers.TaskConfig) jobmap.Use {
	return jobmap.Use{Task: c.ID, Namespace: c.Namespace, Job: c.JobID, GPUs: s.GPUs, Shared: s.SharedGPUs}
}

// confined states how a task's processes are started with package confine.
type confined struct {
	// Binary is the driver's binary, as the processes see it.
	Binary   string
	Identity confine.Identity
	// Alarms states that the binary can end a command by an alarm. That of an
	// earlier driver cannot.
	Alarms bool
}

// command returns the arguments that run a command.
func (c *confined) command(argv []string) []string {
	if c == nil {
		return argv
	}
	return append([]string{c.Binary}, confine.Arguments(c.Identity, argv)...)
}

// watch waits until the agent ends, passes on its last events, and sets the
// outcome. It is the only goroutine of a task and ends with it.
func (t *task) watch(ctx context.Context) {
	tailed := make(chan struct{})
	tailCtx, stopTail := context.WithCancel(ctx)
	go func() {
		defer close(tailed)
		t.tail.Run(tailCtx)
	}()

	ps, err := t.exec.Wait(context.Background())
	stopTail()
	<-tailed
	lastWords := t.tail.Drain(ctx)
	if err := t.jobs.Remove(t.uses); err != nil {
		t.logger.Warn("cannot remove the job from the list of its GPUs", "error", err)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(t.done)
	if err != nil {
		t.state, t.endedAt = drivers.TaskStateUnknown, time.Now()
		t.outcome = drivers.ExitResult{ExitCode: -1, Err: fmt.Errorf("the task's executor is gone: %w", err)}
		t.logger.Error("lost the task's executor", "error", err)
		return
	}
	t.state, t.endedAt = drivers.TaskStateExited, ps.Time
	t.outcome = drivers.ExitResult{ExitCode: ps.ExitCode, Signal: ps.Signal, OOMKilled: ps.OOMKilled}
	if failed := ps.ExitCode != 0 || ps.Signal != 0; failed {
		// The executor notices only if the killed process is the agent; usually it
		// is a slot.
		t.outcome.OOMKilled = t.outcome.OOMKilled || cgroupOf(t.config).OOMKills() > 0
		// If an agent ends by itself, its last event states why. Nomad shows it
		// with the exit code. An agent that is killed had no time to report.
		if lastWords != "" && ps.Signal == 0 {
			t.outcome.Err = errors.New(lastWords)
		}
	}
	t.logger.Info("task ended", "exit_code", ps.ExitCode, "signal", ps.Signal, "oom_killed", t.outcome.OOMKilled)
}

func (t *task) result() *drivers.ExitResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outcome.Copy()
}

func (t *task) running() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

func (t *task) status() *drivers.TaskStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &drivers.TaskStatus{
		ID:               t.config.ID,
		Name:             t.config.Name,
		State:            t.state,
		StartedAt:        t.startedAt,
		CompletedAt:      t.endedAt,
		ExitResult:       t.outcome.Copy(),
		DriverAttributes: map[string]string{"pid": strconv.Itoa(t.pid)},
	}
}

// stop stops the agent and returns when it has ended.
func (t *task) stop(timeout time.Duration) error {
	if err := writeStopNote(t.config.TaskDir().Dir, time.Now().Add(timeout)); err != nil {
		t.logger.Warn("cannot tell the agent how long it has; it goes by leave_timeout", "error", err)
	}
	if err := t.exec.Shutdown("SIGTERM", timeout); err != nil && !t.executor.Exited() {
		return fmt.Errorf("stop task: %w", err)
	}
	<-t.done
	t.executor.Kill()
	return nil
}

// destroy ends the remaining processes of a task and removes everything that was
// made for it.
func (t *task) destroy() {
	if !t.executor.Exited() {
		if err := t.exec.Shutdown("", 0); err != nil {
			t.logger.Warn("cannot end the task's processes", "error", err)
		}
		t.executor.Kill()
	}
	<-t.done
	// Processes that outlived their agent must not run next to the allocation's
	// next agent.
	if err := cgroupOf(t.config).Kill(); err != nil {
		t.logger.Warn("cannot kill what is left in the task's cgroup", "error", err)
	}
	if err := privateDirsOf(t.config).RemoveRun(t.cleanup); err != nil {
		t.logger.Warn("cannot remove what the task used", "error", err)
	}
}

// cgroupOf returns the task's own cgroup.
func cgroupOf(c *drivers.TaskConfig) cgroup.Cgroup {
	if c.Resources == nil || c.Resources.LinuxResources == nil {
		return ""
	}
	return cgroup.At(c.Resources.LinuxResources.CpusetCgroupPath)
}

// newTail returns a Tail that passes a task's events on to Nomad.
func (d *Driver) newTail(c *drivers.TaskConfig, logger hclog.Logger) *eventtail.Tail {
	emit := func(at time.Time, message string) error {
		return d.events.EmitEvent(&drivers.TaskEvent{TaskID: c.ID, TaskName: c.Name, AllocID: c.AllocID, Timestamp: at, Message: message})
	}
	memory := watchMemory(cgroupOf(c))
	return eventtail.New(eventtail.Options{
		Dir: c.TaskDir().Dir, Path: eventPath, Note: filepath.Join(privateDirsOf(c).State, privatedirs.EventOffset), Logger: logger,
		Emit: func(e eventtail.Event) error {
			if message := memory.news(); message != "" {
				_ = emit(e.Time, message) // the next event shows whether Nomad accepts them
			}
			return emit(e.Time, e.Message)
		},
	})
}
