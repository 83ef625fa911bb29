// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Task is what Horovod adds to a task's configuration: of the task driver, of kolo-worker,
// and of what checks jobs without a client.
type Task struct{}

// Name is what a jobspec's `driver` is, and the name of the block with Horovod's
// own settings.
func (Task) Name() string { return Block }

// Settings are the fields that Horovod adds to a task's config, and those of its
// block.
func (Task) Settings() (fields []settings.Setting, blocks map[string][]settings.Setting) {
	e := settings.Env{}
	return []settings.Setting{GlooTimeout(e)}, map[string][]settings.Setting{Block: BlockSettings(e)}
}

// Foreign are the names of a task's config that belong to PyTorch's driver, which
// Environment refuses.
func (Task) Foreign() (fields, blocks []string) { return Foreign() }

// Environment returns the variables for what a task's config gives, in Horovod's
// block and outside of it.
func (Task) Environment(given map[string]any) (block, outside map[string]string, problems problem.List) {
	return Read(given)
}

// Restart returns nothing: all processes of Horovod change their ring.
func (Task) Restart(map[string]any) (r settings.Restart, problems problem.List) { return r, nil }
