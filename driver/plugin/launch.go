// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/nomad/drivers/shared/executor"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/driver/plugin/procid"
	"github.com/kolo-nomad/kolo/driver/sandbox/cgroup"
	"github.com/kolo-nomad/kolo/driver/task/gpu"
)

// launch starts the agent with an executor of its own. It returns its task, and the handle
// to find it again.
func (e *environment) launch() (_ *drivers.TaskHandle, _ *task, err error) {
	e.exec, e.executor, err = executor.CreateExecutor(e.logger, e.client.Driver, &executor.ExecutorConfig{
		LogFile:     filepath.Join(e.dirs.State, executorLogName),
		LogLevel:    e.config.ExecutorLogLevel,
		FSIsolation: e.isolated(),
		Compute:     e.client.Compute(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start the task's executor: %w", err)
	}
	if e.isolated() {
		if err := limitLockedMemory(e.executor.ReattachConfig().Pid, e.config.memlock); err != nil {
			return nil, nil, err
		}
	}
	ps, err := e.exec.Launch(e.command)
	if err != nil {
		return nil, nil, fmt.Errorf("start the agent: %w", err)
	}
	e.launched = true
	if err := e.limitPids(ps.Pid); err != nil {
		return nil, nil, err
	}
	state := handleState{
		Reattach:  pstructs.ReattachConfigFromGoPlugin(e.executor.ReattachConfig()),
		Pid:       ps.Pid,
		StartedAt: time.Now().Round(time.Millisecond),
		Cleanup:   e.cleanup,
		Confined:  e.confined,
	}
	state.GPUs, state.SharedGPUs = gpu.Numbers(e.task.DeviceEnv)
	if state.Started, err = procid.Start(ps.Pid); err != nil {
		e.logger.Debug("cannot note when the agent started", "error", err) // the agent has ended
	}
	handle := drivers.NewTaskHandle(handleVersion)
	handle.Config = e.task
	handle.State = drivers.TaskStateRunning
	if err := handle.SetDriverState(&state); err != nil {
		return nil, nil, fmt.Errorf("encode the task's handle: %w", err)
	}
	return handle, newTask(e.task, &state, e.exec, e.executor, e.logger), nil
}

// limitPids bounds the processes of an isolated task, starting with the first: the executor
// has made the task's cgroup by now.
func (e *environment) limitPids(pid int) error {
	if !e.isolated() || e.config.PidsLimit == 0 {
		return nil
	}
	err := cgroup.LimitPids(pid, e.config.PidsLimit)
	if errors.Is(err, fs.ErrNotExist) && !running(pid) {
		return nil // the agent and all that it started have ended
	}
	if err != nil {
		return fmt.Errorf("pids_limit: %w; set pids_limit = 0 in the config of %s to run tasks without a limit", err, e.config.block)
	}
	return nil
}

// running reports whether a process exists.
func running(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}
