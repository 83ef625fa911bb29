// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// tenantHCL is a job of a namespace of its own, whose workers answer for it.
const tenantHCL = `
job "train" {
  type      = "batch"
  namespace = "NAMESPACE"
  group "workers" {
    count          = 0
    shutdown_delay = "1ms"
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
      max = 12
      policy {
        kolo {
          min      = 1
          weight   = WEIGHT
          priority = PRIORITY
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
`

// liar runs a job that claims that twelve workers are a billion times as fast as one, and
// that it is done in one step. It has the lowest weight and priority, and the cluster to
// itself until other jobs come.
func (w *world) liar(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("requires python3, which answers for the training")
	}
	file := filepath.Join(w.dir, "lie.json")
	const lie = `{"job":"train","namespace":"liar","size":12,"step":4711,"total_steps":4712,
		"step_seconds":{"1":{"mean":1000,"n":100},"12":{"mean":1e-6,"n":100000},"1000":{"mean":1e-9,"n":100000}}}`
	must.NoError(t, os.WriteFile(file, []byte(lie), 0o600))
	silent := filepath.Join(w.dir, "silent.json") // the answer of no job
	must.NoError(t, os.WriteFile(silent, []byte("{}"), 0o600))
	namespaces := []string{"liar", "red", "blue"}
	var rules strings.Builder
	rules.WriteString(minimal)
	for _, ns := range namespaces {
		_, err := w.API.Namespaces().Register(&api.Namespace{Name: ns}, nil)
		must.NoError(t, err)
		fmt.Fprintf(&rules, "namespace %q {\n  capabilities = [\"list-jobs\", \"read-job\", \"read-job-scaling\", \"scale-job\", \"list-scaling-policies\"]\n}\n", ns)
	}
	_, err = w.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: "kolo", Rules: rules.String()}, nil)
	must.NoError(t, err)
	t.Cleanup(func() {
		for _, ns := range namespaces {
			_, _, err := w.API.Jobs().Deregister("train", true, &api.WriteOptions{Namespace: ns})
			must.NoError(t, err)
		}
		waitFor(t, time.Minute, "the workers to end", func() bool {
			n := 0
			for _, ns := range namespaces {
				n += w.running(t, ns)
			}
			return n == 0
		})
	})

	config := strings.NewReplacer(`policy "elastic-fifo" {}`, "policy \"kolo\" {}\n  share = \"none\"", `hold        = "1s"`, "hold        = \"1s\"\n  progress    = \"200ms\"").Replace(configuration)
	d := w.agentWith(t, "one", fmt.Sprintf(config, w.Address))
	waitFor(t, time.Minute, "leadership", d.leads)
	submit := func(namespace, answer string, weight float64, priority int) {
		w.register(t, strings.NewReplacer("NAMESPACE", namespace, "PYTHON", python, "FILE", answer,
			"WEIGHT", fmt.Sprint(weight), "PRIORITY", strconv.Itoa(priority)).Replace(tenantHCL))
	}
	submit("liar", file, 0.01, 1)
	waitFor(t, 2*time.Minute, "the lie to be heard", func() bool {
		s, err := d.status()
		return err == nil && len(s.Jobs) == 1 && s.Jobs[0].Step == 4711 && len(s.Jobs[0].StepTimes) > 0
	})
	waitFor(t, time.Minute, "all slots to be the liar's", func() bool { return w.running(t, "liar") == slots })
	out, err := d.kolo("job", "liar/train")
	must.NoError(t, err)
	must.StrNotContains(t, out, "1000", must.Sprint("a size that it never had"))

	submit("red", silent, 4, 50)
	submit("blue", silent, 4, 50)
	fair := func() bool {
		red, blue := w.running(t, "red"), w.running(t, "blue")
		return w.running(t, "liar") == 1 && red+blue == slots-1 && min(red, blue) >= 4
	}
	waitFor(t, 2*time.Minute, "others to have all but its minimum", fair)
	out, err = d.kolo("policy", "set", "kolo(period=601)") // plans again, of jobs that all run
	must.NoError(t, err, must.Sprint(out))
	for range 20 { // each time it has lied again
		time.Sleep(200 * time.Millisecond)
		must.True(t, fair())
	}
	out, err = d.kolo("policy", "set", "-reset")
	must.NoError(t, err, must.Sprint(out))
}

// running returns how many workers of a namespace's job run.
func (w *world) running(t *testing.T, namespace string) (n int) {
	t.Helper()
	allocs, _, err := w.API.Jobs().Allocations("train", false, &api.QueryOptions{Namespace: namespace})
	must.NoError(t, err)
	for _, a := range allocs {
		if a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun {
			n++
		}
	}
	return n
}
