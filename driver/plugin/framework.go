// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"time"

	"github.com/kolo-nomad/kolo/driver/settings"
)

// Framework is a training framework as the driver needs to know it.
type Framework interface {
	// Name is what a jobspec's `driver` is, and the name of the block with the
	// framework's own settings.
	Name() string
	// Settings are the fields that the framework adds to a task's config, and
	// those of its blocks by the blocks' names.
	Settings() (fields []settings.Setting, blocks map[string][]settings.Setting)
	// Foreign are fields and blocks that belong to other frameworks: a job may give
	// them, so that Environment refuses them with what to write instead.
	Foreign() (fields, blocks []string)
	// Environment returns the variables for what a task's config gives, in the
	// framework's block and outside of it. Only the block is a part of what is
	// trained. The problems are a sentence each.
	Environment(given map[string]any) (block, outside map[string]string, problems []string)
	// Restart returns how processes are replaced that can't change their ring, by
	// what a task's config gives. The problems are a sentence each.
	Restart(given map[string]any) (r settings.Restart, problems []string)
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
