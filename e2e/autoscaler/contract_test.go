// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/contract"
)

// contractJob has workers of more than half a node that end once a file is there.
var contractJob = template.Must(template.New("").Parse(`
job "{{.ID}}" {
  type = "batch"
  group "workers" {
    count = {{.Count}}
    {{- if .Max}}
    scaling {
      min = {{.Min}}
      max = {{.Max}}
      policy {
        kolo {}
      }
    }
    {{- end}}
    {{- if .Service}}
    shutdown_delay = "1ms"
    network {
      port "kolo" {}
    }
    service {
      name     = "{{.ID}}"
      port     = "kolo"
      provider = "nomad"
    }
    {{- end}}
    task "t" {
      driver = "raw_exec"
      kill_timeout = "1s"
      config {
        command = "/bin/sh"
        args    = ["-c", "until [ -e {{.Done}} ]; do sleep 0.1; done"]
      }
      resources {
        cpu    = 3000
        memory = 32
      }
    }
  }
}
`))

// contract asserts of a real Nomad the same as of the stand-in of the other tests.
func (w *world) contract(t *testing.T) {
	dir := t.TempDir()
	done := func(job string) string { return filepath.Join(dir, strings.ReplaceAll(job, "/", "-")) }
	contract.Check(t, &contract.Nomad{
		Client: w.API, Nodes: len(w.Nodes), Before: w.before,
		Register: func(t *testing.T, job contract.Job) {
			t.Helper()
			var hcl strings.Builder
			must.NoError(t, contractJob.Execute(&hcl, struct {
				contract.Job
				Done string
			}{job, done(job.ID)}))
			w.register(t, hcl.String())
		},
		Finish: func(t *testing.T, job string) { must.NoError(t, os.WriteFile(done(job), nil, 0o600)) },
		Eligible: func(t *testing.T, node string, eligible bool) {
			_, err := w.API.Nodes().ToggleEligibility(node, eligible, nil)
			must.NoError(t, err)
		},
		Stranger: func(t *testing.T) string {
			token, _, err := w.API.ACLTokens().Create(&api.ACLToken{Name: "stranger", Type: "client", Policies: []string{"none"}}, nil)
			must.NoError(t, err)
			return token.SecretID
		},
	})
}
