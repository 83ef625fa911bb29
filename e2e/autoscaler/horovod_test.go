// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/agent"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// horovodSlots is two clients of two CPU slots each.
const horovodSlots = 4

// TestHorovod lets the autoscaler share a cluster between two real training
// jobs: the first takes all of it, gives half away when the second arrives,
// and the second takes all when the first is complete. No step is lost.
func TestHorovod(t *testing.T) {
	python := filepath.Join(root(t), ".venv", "bin", "python")
	driver := filepath.Join(root(t), "bin", "nomad-driver-horovod")
	for _, path := range []string{python, driver} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("%v (make dev and the e2e set-up make it)", err)
		}
	}
	w := startWith(t, cluster.Options{
		Clients: 2, CPU: 2000, MemoryMB: 4096,
		Plugins: map[string]string{driver: fmt.Sprintf("allow_isolation_none = true\npython = %q\n", python)},
		Env:     map[string]string{"PATH": filepath.Dir(python) + ":" + os.Getenv("PATH")},
	})
	d := w.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)

	a := w.train(t, python, "a")
	w.ring(t, d, "a", horovodSlots)
	b := w.train(t, python, "b")
	w.ring(t, d, "a", horovodSlots/2)
	w.ring(t, d, "b", horovodSlots/2)

	before := w.version(t, "a")
	must.NoError(t, os.WriteFile(filepath.Join(a, "stop"), nil, 0o600))
	must.NoError(t, w.WaitStatus(bounded(t, 2*time.Minute), "a", "dead"))
	w.ring(t, d, "b", horovodSlots)
	must.Eq(t, before, w.version(t, "a"), must.Sprint("a completed job was touched"))

	s, err := d.status()
	must.NoError(t, err)
	for _, j := range s.Jobs {
		t.Logf("%s: %s, step %.0f, resizes %d, gaps %v, lost steps %.0f", j.ID, j.State, j.Step, j.Resizes, j.Gaps, j.LostSteps)
		must.Eq(t, 0, j.LostSteps)
	}
	must.NoError(t, os.WriteFile(filepath.Join(b, "stop"), nil, 0o600))
	must.NoError(t, w.WaitStatus(bounded(t, 2*time.Minute), "b", "dead"))
	for _, dir := range []string{a, b} {
		record, err := train.Read(filepath.Join(dir, "records"))
		must.NoError(t, err)
		must.NoError(t, record.CheckConsecutive())
	}
}

func bounded(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// train submits the CPU jobspec as it stands, with the test's script, made
// elastic for the autoscaler. It returns the directory of the training.
func (w *world) train(t *testing.T, python, name string) string {
	t.Helper()
	dir := filepath.Join(w.Dir, "training", name)
	must.NoError(t, os.MkdirAll(dir, 0o777))
	text, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "pytorch-cpu.nomad.hcl"))
	must.NoError(t, err)
	job, err := w.Parse(strings.ReplaceAll(string(text), "pytorch-cpu", name), cluster.Vars{
		"count": 0, "python": python, "script": filepath.Join(root(t), "e2e", "train", "train.py"), "isolation": "none",
		"args": []string{
			"--epochs=100000", "--samples=1200", "--step-time=0.05",
			"--records=" + filepath.Join(dir, "records"), "--stop-file=" + filepath.Join(dir, "stop"),
		},
	})
	must.NoError(t, err)
	group := job.TaskGroups[0]
	group.Scaling.Min, group.Scaling.Policy = new(int64(0)), map[string]any{"kolo": []map[string]any{{"min": 1}}}
	must.NoError(t, w.RegisterJob(t.Context(), job))
	return dir
}

// ring waits until a job's ring has a size, as the agent learns from the job.
func (w *world) ring(t *testing.T, d *daemon, name string, size int) {
	t.Helper()
	var last agent.JobStatus
	defer func() { t.Logf("%s: %+v", name, last) }()
	waitFor(t, 90*time.Second, fmt.Sprintf("%d ranks in the ring of %s", size, name), func() bool {
		s, err := d.status()
		if err != nil {
			return false
		}
		for _, j := range s.Jobs {
			if j.ID == name {
				last = j
				return j.Size == size && j.Count == size && j.Step > 0
			}
		}
		return false
	})
}
