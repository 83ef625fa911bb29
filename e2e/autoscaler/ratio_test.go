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
	"github.com/kolo-nomad/kolo/e2e/train"
)

// TestParameterServers trains with TensorFlow's ParameterServerStrategy.
func TestParameterServers(t *testing.T) {
	python := os.Getenv("KOLO_E2E_WORLDS")
	if python == "" {
		t.Skip("needs TensorFlow: make frameworks")
	}
	trainsInRatio(t, python, "parameter_server.py", "ps,worker,chief", "1:2:1", "3.00 on /job:ps/")
}

// TestActorsAndLearner trains with PyTorch's rpc.
func TestActorsAndLearner(t *testing.T) {
	if err := train.Torch.Check(root(t)); err != nil {
		t.Skipf("%v (make build torch sets it up)", err)
	}
	trainsInRatio(t, filepath.Join(root(t), "bin", "torch", "python3"), "actor_learner.py", "learner,actor", "1:3", "3.00 by 3 actors")
}

// trainsInRatio runs a training whose roles are groups in a ratio, four tasks in all. The
// first role has no GPU, and the three tasks of the others have one each. They wait together,
// start together, and find each other by a template.
func trainsInRatio(t *testing.T, python, script, roles, ratio, want string) {
	w := startGPUs(t, 1)

	t.Log("two of eight GPUs are free, and the job needs three")
	w.rigid(t, "other", 1, "", strings.NewReplacer("cpu    = 1000", "cpu = 100\ndevice \"nvidia/gpu\" {\ncount = 6\n}"))
	w.eventually(t, time.Minute, map[string]int{"other": 1})
	path, err := filepath.Abs(filepath.Join("testdata", script))
	must.NoError(t, err)
	spec, err := os.ReadFile("testdata/gang.nomad.hcl")
	must.NoError(t, err)
	result := filepath.Join(t.TempDir(), "result")
	_, err = w.Register(t.Context(), string(spec), cluster.Vars{"python": python, "script": path, "result": result, "roles": roles, "ratio": ratio})
	must.NoError(t, err)
	w.eventuallyReads(t, w.daemon, "train", "waits")
	must.Eq(t, 0, w.everPlaced(t, "train"))

	t.Log("it starts whole, and trains")
	w.purgeJob(t, "other")
	waitFor(t, 10*time.Minute, "the result of the training", func() bool {
		text, err := os.ReadFile(result)
		return err == nil && strings.HasPrefix(string(text), want)
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
