// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// A cost is the cost in a task event about a ring that new processes form.
type cost struct {
	at  float64 // of the event, in Unix seconds
	gap string  // such as "3.42", or "unknown"
	// again is what follows the gap: nothing where no step was made again.
	again string
}

var costText = regexp.MustCompile(`ring \d+: ranks? .*, was \d+, gap ([a-z]+|[0-9.]+)(?: s)?(?:, (.*))?$`)

// costSince returns the first cost in the job's task events after a time.
func (tr *training) costSince(ctx context.Context, t float64) (cost, error) {
	first := cost{at: math.Inf(1)}
	allocs, err := tr.c.Allocs(ctx, tr.id)
	for _, a := range allocs {
		for _, e := range a.TaskStates[tr.task().Name].Events {
			at := float64(e.Time) / 1e9
			if m := costText.FindStringSubmatch(e.DisplayMessage); m != nil && at > t && at < first.at {
				first = cost{at: at, gap: m[1], again: m[2]}
			}
		}
	}
	if err == nil && math.IsInf(first.at, 1) {
		err = errNotYet
	}
	return first, err
}

// checkCosts compares the costs in task events about each change of processes with rank 0's
// record. The reported gap is no shorter than the time without a step, and had ended when
// it was reported. again is the events' text about n repeated steps.
func (tr *training) checkCosts(ctx context.Context, again func(n int) string) {
	tr.t.Helper()
	steps := tr.record().Leading()
	for i, after := range steps {
		if i == 0 || after.PID == steps[i-1].PID {
			continue
		}
		before := steps[i-1]
		var stated cost
		must.NoError(tr.t, cluster.Until(ctx, fmt.Sprintf("an event for the change after step %d", before.Step), func(ctx context.Context) (err error) {
			stated, err = tr.costSince(ctx, after.Begun)
			return err
		}))
		gap, err := strconv.ParseFloat(stated.gap, 64)
		must.NoError(tr.t, err)
		still, lost := after.Begun-before.T, before.Step+1-after.Step
		tr.t.Logf("%d→%d: no step for %.2f s, gap %s s; %d steps made again: %q", before.Size, after.Size, still, stated.gap, lost, stated.again)
		const exact = 0.015 // seconds: events round, and a file's time is that of the kernel's last tick
		must.Between(tr.t, still-exact, gap, stated.at-before.Begun+exact)
		must.Eq(tr.t, again(lost), stated.again)
	}
}

// An unchanged torchrun script runs next to others: its processes are replaced for each
// change, and that loses no step.
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
		tr.checkCosts(ctx, func(int) string { return "unknown how many steps are made again" })
		tr.finish(ctx)
		must.NoError(t, tr.record().CheckConsecutive())
		must.Eq(t, "complete", clientStatus(t, tr))
	})

	t.Run("a death with spares", func(t *testing.T) {
		t.Parallel()
		tr := startTorchrun(ctx, t, c, trainingOptions{count: 2, config: map[string]any{"spares": 1}, args: []string{"--progress"}})
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
		tr.checkCosts(ctx, func(n int) string {
			if n == 0 {
				return ""
			}
			return fmt.Sprintf("%d steps made again", n)
		})
		tr.finish(ctx)
	})

	t.Run("next to kolo.torch", func(t *testing.T) {
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
