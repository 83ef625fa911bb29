// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// checkpointEvery is how many steps torchrun.py makes between its own checkpoints.
const checkpointEvery = 20

// startTorchrun is startTorch for a script for torchrun, which knows nothing of Kolo. It
// is asked for its checkpoint by a signal. The mode is left to what it does.
func startTorchrun(ctx context.Context, t *testing.T, c *cluster.Cluster, o trainingOptions) *training {
	t.Helper()
	if o.config == nil {
		o.config = map[string]any{}
	}
	o.config["checkpoint"] = []map[string]any{{"signal": "SIGUSR1"}}
	o.vars = cluster.Vars{"script": filepath.Join(root(t), "e2e", "train", "torchrun.py")}
	o.args = append(o.args, "--checkpoint="+filepath.Join(t.TempDir(), "model.pt"))
	edit := o.edit
	o.edit = func(job *api.Job) {
		config := job.TaskGroups[0].Tasks[0].Config
		args := config["args"].([]any)
		config["args"] = append([]any{"-m", "kolo.launch"}, args...)
		if edit != nil {
			edit(job)
		}
	}
	return startTorch(ctx, t, c, o)
}

// A script for torchrun as it is, beside others: its processes are replaced for each
// change, and lose no step by it.
func TestTorchrunScript(t *testing.T) {
	ctx := testContext(t, 6*time.Minute)
	if _, err := os.Stat(torchPython(t)); err != nil {
		t.Skip("needs bin/torch: make torch")
	}
	torch, err := filepath.EvalSymlinks(filepath.Dir(torchPython(t)))
	must.NoError(t, err)
	driver, config := train.Torch.Plugin(root(t))
	c := startCluster(t, cluster.Options{Plugins: map[string]string{driver: config + fmt.Sprintf("bind_paths = [%q, %q]\n", torch, root(t))}})

	t.Run("planned changes", func(t *testing.T) {
		t.Parallel()
		tr := startTorchrun(ctx, t, c, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		tr.scale(ctx, 4)
		tr.waitSize(ctx, 4)
		tr.scale(ctx, 2)
		tr.waitSize(ctx, 2)
		tr.finish(ctx)
		must.NoError(t, tr.record().CheckConsecutive())
		for _, z := range tr.record().Resizes() {
			t.Logf("%d→%d: gap %s, step %d to %d", z.From, z.To, z.Gap().Round(time.Millisecond), z.Before.Step, z.After.Step)
		}
		must.Eq(t, "complete", clientStatus(t, tr))
	})

	t.Run("a death with spares", func(t *testing.T) {
		t.Parallel()
		tr := startTorchrun(ctx, t, c, trainingOptions{count: 2, config: map[string]any{"spares": 1}})
		tr.waitSize(ctx, 2)
		tr.wait(ctx, "the spares", func(r train.Record) error {
			if n := len(r.Where("start", nil)); n < 4 {
				return fmt.Errorf("%d processes have started", n)
			}
			return nil
		})
		before := tr.record().Last()
		killed := time.Now()
		must.NoError(t, tr.slotOf(1).Kill())
		tr.wait(ctx, "another ring", func(r train.Record) error {
			if last := r.Last(); last.PID == before.PID {
				return fmt.Errorf("rank 0 is still %d", last.PID)
			}
			return nil
		})
		for _, e := range tr.record().Leading() {
			if e.Time().After(killed) && e.PID != before.PID {
				t.Logf("killed at step %d: %s to step %d of the spares", before.Step, e.Time().Sub(killed).Round(time.Millisecond), e.Step)
				must.GreaterEq(t, before.Step-checkpointEvery, e.Step)
				break
			}
		}
		tr.waitSize(ctx, 2)
		tr.finish(ctx)
	})

	t.Run("beside kolo.torch", func(t *testing.T) {
		t.Parallel()
		startTorch(ctx, t, c, trainingOptions{}).growOnce(ctx)
	})

	t.Run("memory for one process", func(t *testing.T) {
		t.Parallel()
		tr := startTorchrun(ctx, t, c, trainingOptions{edit: func(job *api.Job) {
			task := job.TaskGroups[0].Tasks[0]
			task.Config["isolation"] = "exec"
			task.Config["args"] = append(task.Config["args"].([]any)[:3], "--checkpoint=checkpoint.pt") // what it sees is its own
			task.Resources.MemoryMB = ptr(400)
		}})
		tr.waitLog(ctx, `"kolo": "step"`)
		tr.scale(ctx, 2)
		tr.waitEvent(ctx, "does not fit into the task's memory of 400 MiB", "raise the task's memory")
		tr.waitLog(ctx, `"rank": 1, "size": 2`)
	})
}
