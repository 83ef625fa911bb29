// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package completion

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/hashicorp/nomad/api"
)

// jobDigests names, by group, what a job's tasks of a framework are made of: what they
// run, templates (most scripts come in one), artifacts, environment and meta. They
// are taken as submitted, before each node fills in its own names. Counts are left
// out: a job that is scaled is still the same.
func jobDigests(job *api.Job, framework string) map[string]string {
	digests := map[string]string{}
	for _, g := range job.TaskGroups {
		if g.Name == nil {
			continue
		}
		what := []any{job.Meta, g.Meta}
		for _, t := range g.Tasks {
			if t.Driver != framework {
				continue
			}
			what = append(what, t.Meta, t.Env, t.Config["command"], t.Config["args"], t.Config[framework])
			for _, x := range t.Templates {
				what = append(what, x.EmbeddedTmpl, x.SourcePath, x.DestPath)
			}
			for _, x := range t.Artifacts {
				what = append(what, x.GetterSource, x.GetterOptions, x.RelativeDest)
			}
		}
		digests[*g.Name] = digest(what...)
	}
	return digests
}

func digest(what ...any) string {
	b, _ := json.Marshal(what) // JSON, or what JSON gave
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
