// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"

	"github.com/hashicorp/nomad/drivers/shared/executor"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/driver/plugin/procid"
)

// RecoverTask reconnects to a task's executor after a restart of the plugin or the
// client. On an error Nomad starts the task again.
func (d *Driver) RecoverTask(handle *drivers.TaskHandle) error {
	if handle == nil || handle.Config == nil {
		return errors.New("recover: no handle")
	}
	c := handle.Config
	if _, err := d.task(c.ID); err == nil {
		return nil
	}
	if handle.Version > handleVersion {
		return fmt.Errorf("recover: the task was started by a newer driver (handle version %d, this one knows %d)", handle.Version, handleVersion)
	}
	var state handleState
	if err := handle.GetDriverState(&state); err != nil {
		return fmt.Errorf("recover: decode the task's handle: %w", err)
	}
	reattach, err := pstructs.ReattachConfigToGoPlugin(state.Reattach)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	logger := d.logger.With("task_name", c.Name, "alloc_id", c.AllocID)
	_, client, _ := d.settings()
	exec, execClient, err := executor.ReattachToExecutor(reattach, logger, client.Compute())
	if err != nil {
		// The agent that Nomad starts next must not find the port taken and slots
		// training. The kernel kills the slots together with their agent.
		if killErr := procid.Kill(state.Pid, state.Started); killErr != nil {
			logger.Warn("cannot end an agent without executor", "pid", state.Pid, "error", killErr)
		}
		if err := privateDirsOf(c).RemoveRun(state.Cleanup); err != nil {
			logger.Warn("cannot remove what the task used", "error", err)
		}
		if err := d.jobMap().Remove(state.uses(c)); err != nil {
			logger.Warn("cannot remove the job from the list of its GPUs", "error", err)
		}
		return fmt.Errorf("recover: the task's executor cannot be reached: %w", err)
	}
	if err := privateDirsOf(c).CreateState(); err != nil {
		logger.Warn("cannot note which events were passed on", "error", err)
	}
	t := newTask(c, &state, exec, execClient, logger)
	d.register(t)
	logger.Info("task recovered", "pid", t.pid)
	return nil
}
