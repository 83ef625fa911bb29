// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// torchrun still starts the workers, and Kolo forms the groups: a plain script with checkpoints is
// resized, with max_restarts = 0.
func TestTorchrunBackend(t *testing.T) {
	ctx := testContext(t, 4*time.Minute)
	c := startTorchCluster(t)
	tr := startTorch(ctx, t, c, trainingOptions{edit: func(job *api.Job) {
		task := job.TaskGroups[0].Tasks[0]
		task.Env["PYTHONPATH"] = installPackage(ctx, t)
		// torchrun looks up its host's name for each of its events; in the clients' networks
		// no name server answers.
		task.Env["RES_OPTIONS"] = "timeout:1 attempts:1"
		dir := filepath.Join(c.Dir, "training", *job.ID)
		task.Config["args"] = []string{
			"-m", "torch.distributed.run", "--rdzv-backend=kolo", "--nnodes=1:4", "--nproc-per-node=1",
			filepath.Join(root(t), "python", "tests", "torchrun_script.py"), "100000", "--records", dir,
		}
	}})
	first := tr.waitWorkers(ctx, 1, 0)
	tr.scale(ctx, 2)
	second := tr.waitWorkers(ctx, 2, first.T)
	t.Logf("1→2: gap %s", tr.gapBefore(second))
	tr.scale(ctx, 1)
	third := tr.waitWorkers(ctx, 1, second.T)
	t.Logf("2→1: gap %s", tr.gapBefore(third))
	must.NoError(t, cluster.Until(ctx, "the other one's end", func(ctx context.Context) error {
		if n := len(tr.running(ctx, 1)); n != 1 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	}))

	tr.write("stop", "")
	must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
	allocs, err := c.Allocs(ctx, tr.id)
	must.NoError(t, err)
	for _, a := range allocs {
		must.Eq(t, "complete", a.ClientStatus, must.Sprintf("%s: %s", a.Name, cluster.Events(a)))
	}
	for _, s := range tr.workerSteps() {
		must.Eq(t, "0", s.Restart)
	}
}

// workerStep is a line that torchrun_script.py writes.
type workerStep struct {
	T       float64
	Step    int
	Size    int
	Restart string
}

// workerSteps returns the workers' steps so far.
func (tr *training) workerSteps() []workerStep {
	tr.t.Helper()
	text, err := os.ReadFile(tr.file("steps"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must.NoError(tr.t, err)
	var steps []workerStep
	for line := range bytes.Lines(text) {
		var s workerStep
		if bytes.HasSuffix(line, []byte("\n")) {
			must.NoError(tr.t, json.Unmarshal(line, &s))
			steps = append(steps, s)
		}
	}
	return steps
}

// waitWorkers waits until a group of this size trains, and returns its first step
// after a time.
func (tr *training) waitWorkers(ctx context.Context, size int, after float64) workerStep {
	tr.t.Helper()
	var first workerStep
	must.NoError(tr.t, cluster.Until(ctx, fmt.Sprintf("a group of %d", size), func(context.Context) error {
		done := 0
		for _, s := range tr.workerSteps() {
			if s.Size != size || s.T <= after {
				continue
			}
			if done++; done == 1 {
				first = s
			}
		}
		if done < 10 {
			return fmt.Errorf("%d steps; %s", done, tr.status(ctx))
		}
		return nil
	}))
	return first
}

// gapBefore returns the time between a step and the one before it.
func (tr *training) gapBefore(step workerStep) time.Duration {
	var last float64
	for _, s := range tr.workerSteps() {
		if s.T < step.T {
			last = max(last, s.T)
		}
	}
	return time.Duration((step.T - last) * float64(time.Second)).Round(10 * time.Millisecond)
}

// installPackage installs the Python package as users do, and returns where to: the
// entry point is part of an installation.
func installPackage(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	must.NoError(t, os.CopyFS(source, os.DirFS(filepath.Join(root(t), "python")))) // a build writes next to the source
	out, err := exec.CommandContext(ctx, torchPython(t), "-m", "pip", "-q", "install", "--no-build-isolation", "--no-deps", "--no-compile",
		"--root-user-action=ignore", "--target", target, source).CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s", out))
	return target
}
