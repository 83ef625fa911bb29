// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// startWorker is startTraining for jobspecs/container.nomad.hcl with a framework's
// script, without the image: under raw_exec, with kolo-worker as the task's command.
func startWorker(ctx context.Context, t testing.TB, c *cluster.Cluster, f train.Framework, o trainingOptions) *training {
	t.Helper()
	if err := f.Check(root(t)); err != nil {
		t.Skipf("needs %v: make torch horovod", err)
	}
	edit := o.edit
	o.spec, o.vars = "container", cluster.Vars{"python": filepath.Join(root(t), f.Python), "script": filepath.Join(root(t), f.Script), "framework": f.Name, "isolation": nil}
	o.edit = func(job *api.Job) {
		group := job.TaskGroups[0]
		task := group.Tasks[0]
		task.Driver, task.User, task.VolumeMounts, group.Volumes = "raw_exec", "", nil, nil
		args := task.Config["args"].([]any)
		task.Config = map[string]any{"command": filepath.Join(root(t), "bin", "kolo-worker"), "args": args}
		task.Env = f.Env(root(t))
		job.Spreads = []*api.Spread{api.NewSpread("${node.unique.id}", 100, nil)}
		if edit != nil {
			edit(job)
		}
	}
	return startTraining(ctx, t, c, o)
}

// Kolo-worker runs under a driver that is not Kolo's. Every step is in the record, whatever
// happens to hosts and slots, and Nomad replaces tasks that it has not stopped.
func TestWorker(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	c := startCluster(t, cluster.Options{})

	t.Run("planned changes", func(t *testing.T) {
		t.Parallel()
		tr := startWorker(ctx, t, c, train.Torch, trainingOptions{})
		checkGrowsAndShrinks(ctx, t, tr)
	})

	t.Run("deaths", func(t *testing.T) {
		t.Parallel()
		tr := startWorker(ctx, t, c, train.Torch, trainingOptions{count: 3})
		tr.waitSize(ctx, 3)
		killSlot(ctx, t, tr, 3)

		// Something other than Nomad stops it, as a restart of dockerd does: no step is
		// lost, and Nomad starts it again.
		started := len(tr.record().Where("start", nil))
		must.NoError(t, syscall.Kill(workerOf(t, tr.allocOf(ctx, 2).ID).PID, syscall.SIGQUIT))
		tr.waitStarts(ctx, started+1)
		tr.waitSize(ctx, 3)
		tr.waitEvent(ctx, "Exit Code: 143")
		tr.finish(ctx)
	})

	t.Run("Horovod", func(t *testing.T) {
		t.Parallel()
		tr := startWorker(ctx, t, c, train.Horovod, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		tr.scale(ctx, 3)
		tr.waitSize(ctx, 3)
		killSlot(ctx, t, tr, 3)
		tr.finish(ctx)
	})

	// As under the seccomp profiles of some container runtimes. Without pidfd_getfd, the
	// slots cut their connections themselves; without ptrace, too, peers notice a death by
	// Gloo's time-out, which is shorter then.
	for _, denied := range []string{"pidfd_getfd", "pidfd_getfd,ptrace"} {
		t.Run("Horovod without "+denied, func(t *testing.T) {
			t.Parallel()
			tr := startWorker(ctx, t, c, train.Horovod, trainingOptions{count: 3, edit: func(job *api.Job) {
				task := job.TaskGroups[0].Tasks[0]
				task.Env["KOLO_LOG_LEVEL"] = "debug"
				task.Config["args"] = append([]any{filepath.Join(root(t), "e2e", "train", "deny.py"), denied, task.Config["command"]}, task.Config["args"].([]any)...)
				task.Config["command"] = filepath.Join(root(t), train.Horovod.Python)
			}})
			tr.waitSize(ctx, 3)
			survivor := tr.allocOf(ctx, 0).ID
			killSlot(ctx, t, tr, 3)
			// Whether there was something left to cut is a matter of milliseconds: peers of
			// the process that died may have noticed by themselves.
			waitStderr(ctx, t, c, survivor, "ring 2: ")
			log, err := c.Logs(survivor, "train", "stderr")
			must.NoError(t, err)
			const warning = "connections: kolo-worker may not cut those of its slots (pidfd_getfd: operation not permitted, ptrace: operation not permitted)"
			must.Eq(t, strings.Contains(denied, "ptrace"), strings.Contains(log, warning), must.Sprint(log))
			tr.finish(ctx)
		})
	}

	t.Run("bad configuration", func(t *testing.T) {
		t.Parallel()
		tr := startWorker(ctx, t, c, train.Torch, trainingOptions{edit: func(job *api.Job) {
			giveUp(job)
			config := job.TaskGroups[0].Tasks[0].Config
			config["args"] = append([]any{"--slots=0", "--gloo_timeout=5s"}, config["args"].([]any)...)
		}})
		tr.waitEvent(ctx, "Exit Code: 1")
		allocs, err := c.Allocs(ctx, tr.id)
		must.NoError(t, err)
		waitStderr(ctx, t, c, allocs[0].ID, "kolo-worker: slots = 0: must be at least 1\n"+
			"kolo-worker: gloo_timeout = \"5s\": is Horovod's; set timeout in the torch block\n")
	})
}

// workerOf returns an allocation's kolo-worker.
func workerOf(t testing.TB, allocID string) cluster.Process {
	t.Helper()
	found := cluster.Processes(func(p cluster.Process) bool {
		return filepath.Base(p.Args[0]) == "kolo-worker" && p.Env["NOMAD_ALLOC_ID"] == allocID
	})
	must.Len(t, 1, found)
	return found[0]
}

// waitStderr waits until the task's log has a text.
func waitStderr(ctx context.Context, t testing.TB, c *cluster.Cluster, allocID, text string) {
	t.Helper()
	must.NoError(t, cluster.Until(ctx, "the log", func(context.Context) error {
		log, err := c.Logs(allocID, "train", "stderr")
		if err == nil && !strings.Contains(log, text) {
			err = fmt.Errorf("it is %q", log)
		}
		return err
	}))
}

// killSlot kills the process of rank 1, and waits for a ring of the old size.
func killSlot(ctx context.Context, t testing.TB, tr *training, size int) {
	t.Helper()
	started := len(tr.record().Where("start", nil))
	must.NoError(t, tr.slotOf(1).Kill())
	tr.waitStarts(ctx, started+1)
	tr.waitSize(ctx, size)
	for _, z := range tr.record().Resizes() {
		t.Logf("%d→%d: gap %s", z.From, z.To, z.Gap().Round(time.Millisecond))
	}
	must.NoError(t, tr.record().CheckRollbacks(1))
}
