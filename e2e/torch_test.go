// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// startTorchCluster starts a cluster with both names of the driver.
func startTorchCluster(t testing.TB) *cluster.Cluster {
	t.Helper()
	return startTorchClusterOf(t, 0)
}

// startTorchClusterOf is startTorchCluster with a number of clients.
func startTorchClusterOf(t testing.TB, clients int) *cluster.Cluster {
	t.Helper()
	if _, err := os.Stat(torchPython(t)); err != nil {
		t.Skip("needs bin/torch: make torch")
	}
	driver, config := train.Torch.Plugin(root(t))
	return startCluster(t, cluster.Options{Clients: clients, Plugins: map[string]string{driver: config}})
}

// torchPython returns the interpreter that has today's PyTorch.
func torchPython(t testing.TB) string { return filepath.Join(root(t), train.Torch.Python) }

// startTorch is startTraining for jobspecs/torch.nomad.hcl and torch_train.py.
func startTorch(ctx context.Context, t testing.TB, c *cluster.Cluster, o trainingOptions) *training {
	t.Helper()
	vars := cluster.Vars{"python": torchPython(t), "script": filepath.Join(root(t), train.Torch.Script)}
	maps.Copy(vars, o.vars)
	edit := o.edit
	o.spec, o.vars = "torch", vars
	o.edit = func(job *api.Job) {
		job.TaskGroups[0].Tasks[0].Env = train.Torch.Env(root(t))
		job.Spreads = []*api.Spread{api.NewSpread("${node.unique.id}", 100, nil)}
		if edit != nil {
			edit(job)
		}
	}
	return startTraining(ctx, t, c, o)
}

// The torch driver runs next to the horovod driver on the same clients. Its job grows, shrinks,
// drains and survives deaths, with every step in the record.
func TestTorch(t *testing.T) {
	ctx := testContext(t, 6*time.Minute)
	c := startTorchCluster(t)
	t.Run("together", func(t *testing.T) { testTorchTogether(ctx, t, c) })
	t.Run("a drain", func(t *testing.T) {
		tr := startTorch(ctx, t, c, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		drain(ctx, t, c, c.NodeOf(tr.allocOf(ctx, 0)))
		tr.waitSize(ctx, 1) // Nomad places nothing for a batch allocation that a drain stopped
		tr.finish(ctx)
		must.NoError(t, tr.record().CheckConsecutive())
		must.NoError(t, tr.record().CheckSamples(samples))
	})
}

// checkGrowsAndShrinks scales a training of one worker up and down, and has it lose nothing.
func checkGrowsAndShrinks(ctx context.Context, t *testing.T, tr *training) {
	t.Helper()
	tr.waitSize(ctx, 1)
	tr.scale(ctx, 3)
	tr.waitSize(ctx, 3)
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)
	for _, z := range tr.record().Resizes() {
		t.Logf("%d→%d: gap %s", z.From, z.To, z.Gap().Round(time.Millisecond))
	}
	tr.finish(ctx)
	tr.checkPlanned()
	must.NoError(t, tr.record().CheckLoss())
}

// testTorchTogether has several jobs in one cluster.
func testTorchTogether(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	t.Run("planned changes", func(t *testing.T) {
		t.Parallel()
		tr := startTorch(ctx, t, c, trainingOptions{})
		checkGrowsAndShrinks(ctx, t, tr)
	})

	t.Run("deaths", func(t *testing.T) {
		t.Parallel()
		tr := startTorch(ctx, t, c, trainingOptions{count: 3})
		tr.waitSize(ctx, 3)
		for _, rank := range []int{1, 0} {
			started := len(tr.record().Where("start", nil))
			must.NoError(t, tr.slotOf(rank).Kill())
			tr.waitStarts(ctx, started+1)
			tr.waitSize(ctx, 3)
		}
		started := len(tr.record().Where("start", nil))
		killAlloc(t, leader(ctx, t, tr).ID)
		tr.waitStarts(ctx, started+1)
		tr.waitSize(ctx, 3)
		must.NoError(t, tr.record().CheckRollbacks(1))
		tr.finish(ctx)
	})

	t.Run("next to Horovod", func(t *testing.T) {
		t.Parallel()
		if _, err := os.Stat(python(t)); err != nil {
			t.Skip("needs .venv: make horovod")
		}
		startTraining(ctx, t, c, trainingOptions{}).growOnce(ctx)
	})

	t.Run("bad scripts", func(t *testing.T) {
		t.Parallel()
		testTorchBadScripts(ctx, t, c)
	})
	t.Run("a slow newcomer", func(t *testing.T) {
		t.Parallel()
		testSlowNewcomer(ctx, t, startTorch(ctx, t, c, trainingOptions{}), 20*time.Second)
	})
	t.Run("completion", func(t *testing.T) {
		t.Parallel()
		testTorchCompletion(ctx, t, c)
	})

	t.Run("bad configuration", func(t *testing.T) {
		t.Parallel()
		tr := startTorch(ctx, t, c, trainingOptions{edit: giveUp, config: map[string]any{
			"gloo_timeout": "30s", "torch": []map[string]any{{"backend": "no backend"}},
		}})
		tr.waitEvent(ctx, `gloo_timeout = "30s": is Horovod's; set timeout in the torch block`, `torch.backend = "no backend"`)
	})
}

// drain moves all work off a node; batch jobs may go on until the deadline.
func drain(ctx context.Context, t *testing.T, c *cluster.Cluster, node *cluster.Node) {
	t.Helper()
	_, err := c.API.Nodes().UpdateDrain(node.ID, &api.DrainSpec{Deadline: 3 * time.Second}, false, new(api.WriteOptions).WithContext(ctx))
	must.NoError(t, err)
}
