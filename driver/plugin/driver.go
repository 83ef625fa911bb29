// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/consul-template/signals"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/drivers/shared/eventer"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"

	"github.com/kolo-nomad/kolo/driver/plugin/jobmap"
)

// Driver is the task driver. It implements Nomad's DriverPlugin; Nomad may call all
// methods concurrently.
type Driver struct {
	// ctx ends with the plugin. Tasks go on, since they belong to their executors.
	ctx    context.Context
	logger hclog.Logger
	events *eventer.Eventer
	// framework is the driver's training framework.
	framework Framework
	// host is the host's file system, where device nodes are looked for.
	host fs.FS

	mu     sync.RWMutex
	config Config
	client *base.AgentConfig
	denied *deniedIDs
	jobs   *jobmap.Map // nil if no list is kept
	tasks  map[string]*task
}

var (
	_ drivers.DriverPlugin               = (*Driver)(nil)
	_ drivers.ExecTaskStreamingRawDriver = (*Driver)(nil)
)

// New returns the task driver for a framework. The driver runs until ctx ends.
func New(ctx context.Context, logger hclog.Logger, framework Framework) *Driver {
	logger = logger.Named(framework.Name())
	return &Driver{
		ctx:       ctx,
		logger:    logger,
		events:    eventer.NewEventer(ctx, logger),
		framework: framework,
		host:      os.DirFS("/"),
		tasks:     map[string]*task{},
	}
}

// PluginInfo returns the plugin's name and versions.
func (d *Driver) PluginInfo() (*base.PluginInfoResponse, error) { return info(d.framework.Name()), nil }

// ConfigSchema returns the schema of the agent configuration's `config` block.
func (d *Driver) ConfigSchema() (*hclspec.Spec, error) { return configSpec(), nil }

// TaskConfigSchema returns the schema of a task's `config` block.
func (d *Driver) TaskConfigSchema() (*hclspec.Spec, error) { return taskConfigSpec(d.framework), nil }

// Capabilities returns which of Nomad's features the driver supports.
func (d *Driver) Capabilities() (*drivers.Capabilities, error) {
	config, _, _ := d.settings()
	return capabilities(config.DynamicUsers), nil
}

// SetConfig applies the agent configuration.
func (d *Driver) SetConfig(c *base.Config) error {
	config := Config{Enabled: true, DynamicUsers: true, PidsLimit: defaultPidsLimit, block: blockOf(d.framework.Name())}
	if len(c.PluginConfig) > 0 {
		if err := base.MsgPackDecode(c.PluginConfig, &config); err != nil {
			return fmt.Errorf("config of %s: %w", config.block, err)
		}
	}
	if err := config.complete(); err != nil {
		return fmt.Errorf("config of %s: %w", config.block, err)
	}
	denied, err := parseDenied(&config, d.logger)
	if err != nil {
		return fmt.Errorf("config of %s: denied_host_uids, denied_host_gids: %w", config.block, err)
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	jobs := d.jobs
	if config.JobMappingDir != d.config.JobMappingDir {
		if jobs, err = jobmap.Open(config.JobMappingDir); err != nil {
			return fmt.Errorf("config of %s: job_mapping_dir: %w", config.block, err)
		}
	}
	d.config, d.denied, d.jobs = config, denied, jobs
	if c.AgentConfig != nil {
		d.client = c.AgentConfig
	}
	return nil
}

// settings returns the configuration of the last SetConfig.
func (d *Driver) settings() (Config, *base.AgentConfig, *deniedIDs) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.config, d.client, d.denied
}

func (d *Driver) jobMap() *jobmap.Map {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.jobs
}

func (d *Driver) task(id string) (*task, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, drivers.ErrTaskNotFound
}

// WaitTask returns a channel that yields the result once the task has ended. If ctx
// or the plugin ends first, the channel is closed without a result.
func (d *Driver) WaitTask(ctx context.Context, id string) (<-chan *drivers.ExitResult, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	ch := make(chan *drivers.ExitResult)
	go func() {
		defer close(ch)
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		case <-d.ctx.Done():
			return
		}
		select {
		case ch <- t.result():
		case <-ctx.Done():
		case <-d.ctx.Done():
		}
	}()
	return ch, nil
}

// StopTask asks the agent to leave its ring, and kills it after timeout. The agent
// always gets SIGTERM: it passes other signals on to its slots, and most of the
// signals that a job may set as kill_signal would kill a script.
func (d *Driver) StopTask(id string, timeout time.Duration, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	t.logger.Info("stopping task", "kill_signal", signal, "timeout", timeout)
	return t.stop(timeout)
}

// DestroyTask removes a task from the driver, and everything that the driver made
// for it. It destroys a running task only with force.
func (d *Driver) DestroyTask(id string, force bool) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if t.running() && !force {
		return fmt.Errorf("task %s is running: stop it first", id)
	}
	t.destroy()
	d.mu.Lock()
	delete(d.tasks, id)
	d.mu.Unlock()
	return nil
}

// InspectTask returns the task's status.
func (d *Driver) InspectTask(id string) (*drivers.TaskStatus, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	return t.status(), nil
}

// TaskStats sends the resource usage of a task in every interval. The usage is the
// sum of the agent and its slots.
func (d *Driver) TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *drivers.TaskResourceUsage, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	return t.exec.Stats(ctx, interval)
}

// TaskEvents returns a channel with the events that agents report; see package
// eventtail.
func (d *Driver) TaskEvents(ctx context.Context) (<-chan *drivers.TaskEvent, error) {
	return d.events.TaskEvents(ctx)
}

// SignalTask sends a signal to the agent, which passes it on to its slots.
func (d *Driver) SignalTask(id, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	sig, known := signals.SignalLookup[signal]
	if !known {
		return fmt.Errorf("signal %q is unknown", signal)
	}
	if s, ok := sig.(syscall.Signal); !ok || s == 0 {
		return fmt.Errorf("signal %q cannot be sent", signal)
	}
	return t.exec.Signal(sig)
}

// ExecTask runs a command next to the agent, for health checks.
func (d *Driver) ExecTask(id string, command []string, timeout time.Duration) (*drivers.ExecTaskResult, error) {
	if len(command) == 0 {
		return nil, errNoCommand
	}
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	return t.runCheck(command, timeout)
}

// ExecTaskStreamingRaw runs a command next to the agent for `nomad alloc exec`.
func (d *Driver) ExecTaskStreamingRaw(ctx context.Context, id string, command []string, tty bool, stream drivers.ExecTaskStream) error {
	if len(command) == 0 {
		return errNoCommand
	}
	t, err := d.task(id)
	if err != nil {
		return err
	}
	return t.exec.ExecStreaming(ctx, t.confined.command(command), tty, stream)
}

var errNoCommand = errors.New("no command to execute")

// ownPath returns the path of this binary, which is also the agent. If the binary
// was replaced while the plugin runs, the system reports its path as "...
// (deleted)".
func ownPath() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the plugin's own binary: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the plugin's own binary is gone, restart the Nomad client: %w", err)
	}
	return path, nil
}
