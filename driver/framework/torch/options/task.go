// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Task is what PyTorch adds to a task's configuration: of the task driver, of kolo-worker,
// and of what checks jobs without a client.
type Task struct{}

// Name is what a jobspec's `driver` is, and the name of the block with PyTorch's own
// settings.
func (Task) Name() string { return Block }

// Settings are the fields that PyTorch adds to a task's config, and those of its
// blocks.
func (Task) Settings() (fields []settings.Setting, blocks map[string][]settings.Setting) {
	fields, checkpoint := new(settings.Restart).Bind()
	fields = append(fields, new(settings.Training).BindReplica())
	return fields, map[string][]settings.Setting{Block: BlockSettings(settings.Env{}), settings.CheckpointBlock: checkpoint}
}

// Foreign are the names of a task's config that belong to Horovod, which Environment
// refuses.
func (Task) Foreign() (fields, blocks []string) { return Foreign() }

// Environment returns the variables for what a task's config gives in the block.
func (Task) Environment(given map[string]any) (block, outside map[string]string, problems problem.List) {
	block, problems = Read(given)
	return block, map[string]string{}, problems
}

// Restart returns how processes of scripts without kolo.torch are replaced.
func (Task) Restart(given map[string]any) (r settings.Restart, problems problem.List) {
	problems = r.Read(given)
	return r, problems
}
