// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
)

// StartTask checks the task's configuration and starts its agent. Nomad shows an
// error as the task event "Driver Failure".
func (d *Driver) StartTask(c *drivers.TaskConfig) (_ *drivers.TaskHandle, _ *drivers.DriverNetwork, err error) {
	config, client, denied := d.settings()
	if err := d.ready(&config, client, c); err != nil {
		return nil, nil, err
	}
	var given map[string]any
	if err := c.DecodeDriverConfig(&given); err != nil {
		return nil, nil, fmt.Errorf("decode the task's config: %w", err)
	}
	who, err := taskAccount(c, given["isolation"] != isolationNone, &config, denied)
	if err != nil {
		return nil, nil, err
	}
	config.BindPaths = isolation.Present(config.BindPaths)
	facts := readHostEnvironment(&config, c, who)
	pl, err := validate(d.framework, given, facts)
	if err != nil {
		return nil, nil, err
	}

	env := &environment{
		config: &config, client: client, task: c, who: who, plan: pl, host: d.host, network: facts.network,
		logger: d.logger.With("task_name", c.Name, "alloc_id", c.AllocID),
	}
	defer func() { env.release(err != nil) }()
	if err := env.prepare(); err != nil {
		return nil, nil, err
	}
	handle, t, err := env.launch()
	if err != nil {
		return nil, nil, err
	}
	d.register(t)
	t.logger.Info("agent started", "pid", t.pid, "isolation", pl.isolation, "slots", pl.agent.Slots, "gpus", len(pl.gpus), "listen", pl.agent.Listen)
	return handle, nil, nil
}

// ready returns why no task, or not this one, can be started.
func (d *Driver) ready(config *Config, client *base.AgentConfig, c *drivers.TaskConfig) error {
	if !config.Enabled {
		return fmt.Errorf("driver %s is disabled on this client", d.framework.Name())
	}
	if client == nil || client.Driver == nil || client.Driver.Topology == nil {
		return errors.New("the Nomad client has not reported its hardware")
	}
	if _, err := d.task(c.ID); err == nil {
		return fmt.Errorf("task %s is already started", c.ID)
	}
	if c.Name != filepath.Base(c.TaskDir().Dir) {
		return fmt.Errorf("task %q: its name leads out of the allocation's directory; choose another", c.Name)
	}
	return nil
}

// register makes the driver follow a running task.
func (d *Driver) register(t *task) {
	t.tail = d.newTail(t.config, t.logger)
	d.mu.Lock()
	d.tasks[t.config.ID] = t
	t.jobs = d.jobs
	d.mu.Unlock()
	if err := t.jobs.Add(t.uses); err != nil {
		t.logger.Warn("cannot list the job at its GPUs", "error", err)
	}
	go t.watch(d.ctx)
}
