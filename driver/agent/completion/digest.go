// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package completion

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/hashicorp/nomad/api"
)

// jobDigests returns a digest of the training tasks of each group. Training tasks are
// those of the framework's driver and those with this agent's task name, under any driver.
// A group without one has no digest here; its own agents use another task name.
//
// A digest covers what the tasks run, their templates (most scripts are in one),
// artifacts, environment and meta, as submitted, before a node fills in variables. It does
// not cover counts: a job that is scaled is still the same.
func jobDigests(job *api.Job, framework, task string) map[string]string {
	digests := map[string]string{}
	for _, g := range job.TaskGroups {
		if g.Name == nil {
			continue
		}
		what, trains := []any{job.Meta, g.Meta}, false
		for _, t := range g.Tasks {
			switch {
			case t.Driver == framework:
				what = append(what, t.Meta, t.Env, t.Config["command"], t.Config["args"], t.Config[framework])
			case task != "" && t.Name == task:
				what = append(what, t.Meta, t.Env, foreignProgram(t.Config))
			default:
				continue
			}
			// Another directory has other scripts of the same names. Without one, the digest
			// is the same as with earlier versions, which did not cover it.
			if dir := cmp.Or(t.Config["work_dir"], t.Config["working_dir"]); dir != nil {
				what = append(what, dir)
			}
			trains = true
			for _, x := range t.Templates {
				what = append(what, x.EmbeddedTmpl, x.SourcePath, x.DestPath)
			}
			for _, x := range t.Artifacts {
				what = append(what, x.GetterSource, x.GetterOptions, x.RelativeDest)
			}
		}
		if trains {
			digests[*g.Name] = digest(what...)
		}
	}
	return digests
}

// foreignProgram returns what a task of another driver runs: its image, and the command
// after the flags of kolo-worker. The flags are settings, and changing a setting does not
// make a job train again.
func foreignProgram(config map[string]any) []any {
	program := []any{config["image"], config["load"]}
	args, _ := config["args"].([]any)
	if at := slices.Index(args, any("--")); at >= 0 {
		return append(program, args[at+1:]...)
	}
	return append(program, config["entrypoint"], config["command"], config["args"])
}

func digest(what ...any) string {
	b, _ := json.Marshal(what) // JSON, or what JSON gave
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
