// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Task describes Horovod's part of a task's configuration to the task driver, to
// kolo-worker, and to checks of a job without a client.
type Task struct{}

// Name returns "horovod", the `driver` of a jobspec and the name of the block with
// Horovod's own settings.
func (Task) Name() string { return Block }

// Settings returns the fields that Horovod adds to a task's config, and the fields of its
// block.
func (Task) Settings() (fields []settings.Setting, blocks map[string][]settings.Setting) {
	e := settings.Env{}
	return []settings.Setting{GlooTimeout(e)}, map[string][]settings.Setting{Block: BlockSettings(e)}
}

// Foreign returns the fields and blocks of PyTorch's driver, which Environment refuses in
// a task's config.
func (Task) Foreign() (fields, blocks []string) { return Foreign() }

// Environment returns the variables for a task's config, from Horovod's block and from
// outside of it.
func (Task) Environment(given map[string]any) (block, outside map[string]string, problems problem.List) {
	return Read(given)
}

// Restart returns nothing: every Horovod process can change its ring.
func (Task) Restart(map[string]any) (r settings.Restart, problems problem.List) { return r, nil }
