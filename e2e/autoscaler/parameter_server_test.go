// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// TestParameterServers trains with TensorFlow's ParameterServerStrategy. The chief, the server
// and the workers are groups in a ratio: they wait together, start together, and find each
// other by a template.
func TestParameterServers(t *testing.T) {
	python := os.Getenv("KOLO_E2E_WORLDS")
	if python == "" {
		t.Skip("needs TensorFlow: make frameworks")
	}
	w := startWith(t, cluster.Options{CPU: 2000, MemoryMB: 4096})
	d := w.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)

	t.Log("three of six slots are free, and the job needs four")
	w.rigid(t, "other", 3, "")
	w.eventually(t, time.Minute, map[string]int{"other": 3})
	script, err := filepath.Abs("testdata/parameter_server.py")
	must.NoError(t, err)
	spec, err := os.ReadFile("testdata/parameter_server.nomad.hcl")
	must.NoError(t, err)
	result := filepath.Join(t.TempDir(), "result")
	_, err = w.Register(t.Context(), string(spec), cluster.Vars{"python": python, "script": script, "result": result})
	must.NoError(t, err)
	w.eventuallyReads(t, d, "train", "waits")
	time.Sleep(3 * time.Second) // longer than a round
	must.Eq(t, 0, w.placed(t, "train"))

	t.Log("it starts whole, and trains")
	w.purgeJob(t, "other")
	waitFor(t, 4*time.Minute, "the result of the training", func() bool {
		text, err := os.ReadFile(result)
		return err == nil && strings.HasPrefix(string(text), "3.00 on /job:ps/")
	})
	must.Eq(t, 4, w.everPlaced(t, "train"), must.Sprint("no task was started twice"))
	w.purgeAll(t)
}

// everPlaced returns how many allocations a job has had.
func (w *world) everPlaced(t *testing.T, job string) int {
	t.Helper()
	allocs, _, err := w.API.Jobs().Allocations(job, true, &api.QueryOptions{})
	must.NoError(t, err)
	return len(allocs)
}
