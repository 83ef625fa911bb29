// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package completion

import (
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// A task in an image is identified by its name, its image and the command that kolo-worker
// starts, not by the flags.
func TestDigest_Image(t *testing.T) {
	t.Parallel()
	digest := func(change func(*api.Task)) string {
		group := "workers"
		task := &api.Task{Name: "train", Driver: "docker", Config: map[string]any{
			"image": "torch:1", "shm_size": 1 << 30, "command": "/kolo/kolo-worker",
			"args": []any{"--framework=torch", "--max_np=4", "--", "python3", "train.py"},
		}}
		if change != nil {
			change(task)
		}
		sidecar := &api.Task{Name: "logs", Driver: "docker", Config: map[string]any{"image": "logs:1"}}
		return jobDigests(&api.Job{TaskGroups: []*api.TaskGroup{{Name: &group, Tasks: []*api.Task{task, sidecar}}}}, "torch", "train")[group]
	}
	same := digest(nil)
	for name, c := range map[string]struct {
		change func(*api.Task)
		again  bool
	}{
		"nothing":                             {change: func(*api.Task) {}},
		"the image":                           {func(t *api.Task) { t.Config["image"] = "torch:2" }, true},
		"a flag":                              {func(t *api.Task) { t.Config["args"].([]any)[1] = "--max_np=8" }, false},
		"its memory":                          {func(t *api.Task) { t.Config["shm_size"] = 1 }, false},
		"docker's working directory":          {func(t *api.Task) { t.Config["work_dir"] = "/src/mnist" }, true},
		"podman's":                            {func(t *api.Task) { t.Config["working_dir"] = "/src/mnist" }, true},
		"the script":                          {func(t *api.Task) { t.Config["args"].([]any)[4] = "other.py" }, true},
		"the environment":                     {func(t *api.Task) { t.Env = map[string]string{"LR": "0.2"} }, true},
		"an entry point that is in the image": {func(t *api.Task) { t.Config["args"] = []any{"train.py"} }, true},
	} {
		must.Eq(t, c.again, digest(c.change) != same, must.Sprint(name))
	}
}
