// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/hashicorp/nomad/api"
)

// specDigest names what a job's training tasks are made of besides their
// config: templates (most scripts come in one), artifacts, environment and
// meta. They are taken as submitted, before each node fills in its own names.
// Counts are left out: a job that is scaled is still the same.
func specDigest(job *api.Job) string {
	what := []any{job.Meta}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			if t.Driver != "horovod" {
				continue
			}
			what = append(what, g.Meta, t.Meta, t.Env)
			for _, x := range t.Templates {
				what = append(what, x.EmbeddedTmpl, x.SourcePath, x.DestPath)
			}
			for _, x := range t.Artifacts {
				what = append(what, x.GetterSource, x.GetterOptions, x.RelativeDest)
			}
		}
	}
	b, _ := json.Marshal(what) // strings and maps of them
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
