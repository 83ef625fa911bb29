// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// Framework is a training framework as the driver needs to know it.
type Framework interface {
	// Framework turns a task's config into the agent's. Its name is what a jobspec's
	// `driver` is.
	taskconfig.Framework
	// Settings are the fields that the framework adds to a task's config, and
	// those of its blocks by the blocks' names.
	Settings() (fields []settings.Setting, blocks map[string][]settings.Setting)
	// Probe asks a Python program which installation this host has. The attributes
	// (texts and bools) are those of the node below "driver.<name>.", the remark is
	// added to the driver's health. An error states why no task can use the
	// installation.
	Probe(ctx context.Context, python string, timeout time.Duration) (attributes map[string]any, remark string, err error)
}

// installation is what Probe returned.
type installation struct {
	attributes map[string]any
	remark     string
	err        error
}
