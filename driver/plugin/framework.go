// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// Framework is the driver's interface to a training framework.
type Framework interface {
	// Framework turns a task's config into the agent's. Its name is the `driver` in a
	// jobspec.
	taskconfig.Framework
	// Settings returns the fields that the framework adds to a task's config, and the
	// fields of its blocks, by name of the block.
	Settings() (fields []settings.Setting, blocks map[string][]settings.Setting)
	// Probe finds out which installation of the framework a Python interpreter of this
	// host has. The attributes (texts and bools) become those of the node below
	// "driver.<name>."; the remark is added to the driver's health. An error states why
	// no task can use the installation.
	Probe(ctx context.Context, python string, timeout time.Duration) (attributes map[string]any, remark string, err error)
}

// installation is the result of Probe.
type installation struct {
	attributes map[string]any
	remark     string
	err        error
}
