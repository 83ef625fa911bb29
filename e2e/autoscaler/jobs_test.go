// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

const jobHCL = `
job "NAME" {
  type = "batch"
  group "workers" {
    count = 0
    scaling {
      min = 0
      max = 12
      policy {
        kolo { KOLO }
      }
    }
    task "t" {
      driver = "raw_exec"
      kill_timeout = "5s"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 1000
        memory = 32
      }
    }
  }
}
`

// register registers a job from its text.
func (w *world) register(t *testing.T, hcl string) {
	t.Helper()
	job, err := w.API.Jobs().ParseHCL(hcl, true)
	must.NoError(t, err)
	_, _, err = w.API.Jobs().Register(job, nil)
	must.NoError(t, err)
}

// submit registers an elastic job with the given lines in its kolo block.
func (w *world) submit(t *testing.T, name, kolo string) {
	t.Helper()
	block := strings.ReplaceAll(jobHCL, "kolo { KOLO }", "kolo {\n"+kolo+"\n}")
	w.register(t, strings.ReplaceAll(block, "NAME", name))
}

// count returns a job's count in Nomad.
func (w *world) count(name string) (int, error) {
	j, _, err := w.API.Jobs().Info(name, nil)
	if err != nil {
		return -1, err
	}
	return *j.TaskGroups[0].Count, nil
}

// eventually waits for the counts and the running workers of jobs.
func (w *world) eventually(t *testing.T, within time.Duration, want map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), within, fmt.Errorf("not within %s", within))
	defer cancel()
	must.NoError(t, cluster.Until(ctx, fmt.Sprint(want), func(ctx context.Context) error {
		for name, n := range want {
			got, err := w.count(name)
			if err != nil {
				return err
			}
			running, err := w.Running(ctx, name)
			if err != nil {
				return err
			}
			if got != n || len(running) != n {
				return fmt.Errorf("%s has count %d and %d running, wanted %d", name, got, len(running), n)
			}
		}
		return nil
	}))
}

// purge removes jobs and waits for their workers to be gone.
func (w *world) purge(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		_, _, err := w.API.Jobs().Deregister(n, true, nil)
		must.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.NoError(t, cluster.Until(ctx, "the workers to end", func(context.Context) error {
		allocs, _, err := w.API.Allocations().List(nil)
		if err != nil {
			return err
		}
		for _, a := range allocs {
			if a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending {
				return fmt.Errorf("%s still runs", a.Name)
			}
		}
		return nil
	}))
}

// purgeAll removes all jobs.
func (w *world) purgeAll(t *testing.T) {
	t.Helper()
	jobs, _, err := w.API.Jobs().List(nil)
	must.NoError(t, err)
	var names []string
	for _, j := range jobs {
		names = append(names, j.ID)
	}
	w.purge(t, names...)
}

// neverTooMuch fails if Nomad was ever asked for workers that did not fit. Nomad
// keeps the evaluations of a purged job with the same name; those belong to another
// scenario. If Nomad has lost a node, as it does on a machine that stalls for
// seconds, the replacements of that node's workers do not fit. From then on the
// cause of a request is unknown.
func (w *world) neverTooMuch(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		job, _, err := w.API.Jobs().Info(n, nil)
		must.NoError(t, err)
		evals, _, err := w.API.Jobs().Evaluations(n, nil)
		must.NoError(t, err)
		lost, node := w.nodeLost(t, *job.CreateIndex)
		for _, e := range evals {
			if e.CreateIndex < *job.CreateIndex {
				continue
			}
			if lost <= e.CreateIndex {
				t.Logf("%s was not judged from index %d on: Nomad lost node %s", n, lost, node)
				continue
			}
			must.NotEq(t, "queued-allocs", e.TriggeredBy, must.Sprintf("%s was asked to grow beyond the capacity: %+v", n, e))
		}
	}
}

// nodeLost returns the first index, from from on, at which Nomad had not heard of a
// node for too long, and the node. It returns math.MaxUint64 if Nomad heard of all
// nodes.
func (w *world) nodeLost(t *testing.T, from uint64) (uint64, string) {
	t.Helper()
	first, lost := uint64(math.MaxUint64), ""
	for _, n := range w.Nodes {
		node, _, err := w.API.Nodes().Info(n.ID, nil)
		must.NoError(t, err)
		for _, e := range node.Events {
			if e.Message == "Node heartbeat missed" && e.CreateIndex >= from && e.CreateIndex < first {
				first, lost = e.CreateIndex, n.Name
			}
		}
	}
	return first, lost
}
