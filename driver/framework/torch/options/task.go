// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Task describes PyTorch's part of a task's configuration to the task driver, to
// kolo-worker, and to checks of a job without a client.
type Task struct{}

// Name returns "torch", the `driver` of a jobspec and the name of the block with PyTorch's
// own settings.
func (Task) Name() string { return Block }

// Settings returns the fields that PyTorch adds to a task's config, and the fields of its
// blocks.
func (Task) Settings() (fields []settings.Setting, blocks map[string][]settings.Setting) {
	fields, checkpoint := new(settings.Restart).Bind()
	fields = append(fields, new(settings.Training).BindReplica())
	return fields, map[string][]settings.Setting{Block: BlockSettings(settings.Env{}), settings.CheckpointBlock: checkpoint}
}

// Foreign returns the fields and blocks of Horovod's driver, which Environment refuses in
// a task's config.
func (Task) Foreign() (fields, blocks []string) { return Foreign() }

// Environment returns the variables for the block in a task's config.
func (Task) Environment(given map[string]any) (block, outside map[string]string, problems problem.List) {
	block, problems = Read(given)
	return block, map[string]string{}, problems
}

// Restart returns how to replace the processes of scripts without kolo.torch.
func (Task) Restart(given map[string]any) (r settings.Restart, problems problem.List) {
	problems = r.Read(given)
	return r, problems
}
