// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/nomad/drivers/shared/validators"
	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/account"
	"github.com/kolo-nomad/kolo/driver/hostnet"
	"github.com/kolo-nomad/kolo/driver/isolation"
)

// defaultUser runs isolated tasks whose job names no user, as in Nomad's exec.
const defaultUser = "nobody"

// StartTask checks the task's configuration and starts its agent. An error is
// shown as the task event "Driver Failure".
func (d *Driver) StartTask(c *drivers.TaskConfig) (*drivers.TaskHandle, *drivers.DriverNetwork, error) {
	config, client, users := d.settings()
	if !config.Enabled {
		return nil, nil, fmt.Errorf("driver %s is disabled on this client", d.framework.Name())
	}
	if client == nil || client.Driver == nil || client.Driver.Topology == nil {
		return nil, nil, errors.New("the Nomad client has not said what hardware it runs on")
	}
	if _, err := d.task(c.ID); err == nil {
		return nil, nil, fmt.Errorf("task %s is already started", c.ID)
	}
	if c.Name != filepath.Base(c.TaskDir().Dir) {
		return nil, nil, fmt.Errorf("task %q: its name leads out of the allocation's directory; choose another", c.Name)
	}
	var given map[string]any
	if err := c.DecodeDriverConfig(&given); err != nil {
		return nil, nil, fmt.Errorf("decode the task's config: %w", err)
	}
	who, err := taskAccount(c, given["isolation"] != isolationNone, &config, users)
	if err != nil {
		return nil, nil, err
	}
	config.BindPaths = isolation.Present(config.BindPaths)
	pl, err := validate(d.framework, given, readHostEnvironment(&config, c, who))
	if err != nil {
		return nil, nil, err
	}

	logger := d.logger.With("task_name", c.Name, "alloc_id", c.AllocID)
	handle, t, err := d.launch(pl, c, who, &config, client, logger)
	if err != nil {
		return nil, nil, err
	}
	t.tail = d.newTail(c, logger)
	d.addTask(t)
	go t.watch(d.ctx)
	logger.Info("agent started", "pid", t.pid, "isolation", pl.isolation, "slots", pl.agent.Slots, "gpus", len(pl.gpus), "listen", pl.agent.Listen)
	return handle, nil, nil
}

// taskAccount decides which user a task runs as, and refuses those it must not.
func taskAccount(c *drivers.TaskConfig, isolated bool, config *Config, users *validators.Validator) (account.Account, error) {
	if c.User == "" && isolated {
		c.User = defaultUser
	}
	who, err := account.Lookup(c.User)
	if err != nil {
		return account.Account{}, err
	}
	if c.User != "" {
		c.User = who.Name // Nomad's executor knows no numbers
	}
	if isolated && !config.AllowRoot {
		if err := who.CheckRoot(); err != nil {
			return account.Account{}, err
		}
	}
	if err := users.HasValidIDs(who.Name); err != nil {
		return account.Account{}, fmt.Errorf("user = %q: %w", who.Name, err)
	}
	return who, nil
}

// readHostEnvironment asks this machine what validate wants to know.
func readHostEnvironment(config *Config, c *drivers.TaskConfig, who account.Account) *hostEnvironment {
	dir := c.TaskDir()
	return &hostEnvironment{
		plugin: config, env: c.Env, devices: c.DeviceEnv, mounts: c.Mounts,
		taskDir: dir.Dir, allocDir: c.AllocDir, localDir: dir.LocalDir, secretsDir: dir.SecretsDir,
		execIsolation: canIsolate(),
		exists:        func(path string) bool { _, err := os.Lstat(path); return err == nil },
		user:          who.Name, readable: who.Readable, executable: who.Executable,
		ownNetwork: c.NetworkIsolation != nil,
		interfaces: hostnet.Interfaces,
	}
}
