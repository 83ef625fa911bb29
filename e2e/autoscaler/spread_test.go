// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
)

// statusServer answers for a training with what is in a file, as the driver's agents do.
const statusServer = `
            import http.server, os
            class Status(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    with open("FILE", "rb") as f:
                        text = f.read()
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
            http.server.HTTPServer(("", int(os.environ["NOMAD_PORT_status"])), Status).serve_forever()
`

// spreadHCL is a job of one group per rack, whose workers answer for the training
// with what is in a file.
const spreadHCL = `
job "train" {
  type = "batch"
  dynamic "group" {
    for_each = ["r1", "r2"]
    labels   = ["workers-${group.value}"]
    content {
      count = 2
      constraint {
        attribute = "${meta.rack}"
        value     = group.value
      }
      network {
        port "status" {}
      }
      service {
        name     = "train"
        provider = "nomad"
        port     = "status"
      }
      scaling {
        min = 0
        max = 4
        policy {
          kolo {
            min = 4
            max = 4
          }
        }
      }
      task "t" {
        driver       = "raw_exec"
        kill_timeout = "5s"
        config {
          command = "PYTHON"
          args    = ["-c", <<-EOT` + statusServer + `            EOT
          ]
        }
        resources {
          cpu    = 1000
          memory = 32
        }
      }
    }
  }
}
`

// TestSpread_WhatRacksCostIsMeasured trains a job on two racks and then, moved by hand, on
// one. The job's status shows the cost of two racks.
func TestSpread_WhatRacksCostIsMeasured(t *testing.T) {
	if os.Getenv(givenNomad) != "" {
		t.Skip("requires three clients, whose metadata it sets")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("requires python3, which answers for the training")
	}
	w := start(t)
	w.rack(t, 0, "r1")
	w.rack(t, 1, "r2")
	held := strings.Replace(racksConfiguration, `hold = "1s"`, "hold = \"1s\"\n  manual_hold = \"1h\"\n  progress = \"200ms\"", 1)
	d := w.agentWith(t, "kolo", fmt.Sprintf(held, w.Address))
	d.waitForRacks("r1 1", "r2 1", " 1")

	file := filepath.Join(w.dir, "status.json")
	steps, seconds := 0.0, 0.0
	train := func(ring, step float64) { // twenty steps of a ring, short enough to be made between two reports
		steps, seconds = steps+20, seconds+20*step
		text := fmt.Sprintf(`{"job":"train","namespace":"default","size":4,"step_seconds":{"4":{"mean":%g,"n":%g}},
			"resizes":[{"from":4,"to":4,"cause":"resize","gap_seconds":0.3,"time":%g}]}`, seconds/steps, steps, ring)
		must.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
		must.NoError(t, os.Rename(file+".new", file))
	}
	shows := func(ring, step float64, want ...string) {
		t.Helper()
		waitFor(t, time.Minute, fmt.Sprint(want), func() bool {
			train(ring, step)
			out, err := d.kolo("job", "train")
			for _, part := range want {
				if err != nil || !strings.Contains(out, part) {
					return false
				}
			}
			t.Log(out)
			return true
		})
	}
	train(1, 1.31e-3)
	w.register(t, strings.NewReplacer("PYTHON", python, "FILE", file).Replace(spreadHCL))
	w.waitForGroups(t, "train", map[string]int{"workers-r1": 2, "workers-r2": 2})
	shows(1, 1.31e-3, "on 2 of meta.rack")
	reports, samples := 0, 0
	waitFor(t, time.Minute, "reports are read since the place is known", func() bool {
		train(1, 1.31e-3)
		var j koloapi.Job
		must.NoError(t, json.Unmarshal([]byte(d.printed("job", "-json", "train")), &j))
		if times := j.Job.StepTimes; len(times) == 1 && times[0].Samples > samples {
			reports, samples = reports+1, times[0].Samples
		}
		return reports == 5
	})

	t.Log("it is moved by hand")
	for _, to := range []struct {
		group string
		count int
	}{{"workers-r2", 0}, {"workers-r1", 4}} {
		_, _, err := w.API.Jobs().ScaleWithRequest("train", &api.ScalingRequest{Count: new(int64(to.count)), Target: map[string]string{"Group": to.group}}, nil)
		must.NoError(t, err)
	}
	w.waitForGroups(t, "train", map[string]int{"workers-r1": 4, "workers-r2": 0})
	shows(2, 1e-3, "on 2 of meta.rack 31 % slower than on 1 (4 workers: 0.00131 s a step against 0.001 s)")
}
