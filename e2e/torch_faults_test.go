// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// Scripts for PyTorch that go wrong: a clear task event and log each, and an end,
// or training that goes on.
func testTorchBadScripts(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	once := map[string]any{"np": 2, "slot_restarts": 0}
	fails := func(t *testing.T, o trainingOptions) *training {
		t.Helper()
		o.count, o.edit, o.config = 2, editAlso(o.edit, giveUp), once
		tr := startTorch(ctx, t, c, o)
		must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
		must.Eq(t, "failed", clientStatus(t, tr))
		return tr
	}

	t.Run("does not find kolo", func(t *testing.T) {
		tr := fails(t, trainingOptions{edit: func(job *api.Job) { delete(job.TaskGroups[0].Tasks[0].Env, "PYTHONPATH") }})
		tr.waitEvent(ctx, "No module named 'kolo'", "before it reached a function decorated with kolo.torch.elastic")
	})

	t.Run("has a package of another version", func(t *testing.T) {
		dir := t.TempDir()
		must.NoError(t, os.Chmod(dir, 0o755))
		must.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root(t), "python"))))
		file := filepath.Join(dir, "kolo", "worker.py")
		text, err := os.ReadFile(file)
		must.NoError(t, err)
		other := strings.Replace(string(text), "\nVERSION = 1\n", "\nVERSION = 99\n", 1)
		must.NotEq(t, string(text), other)
		must.NoError(t, os.WriteFile(file, []byte(other), 0o644))
		tr := fails(t, trainingOptions{edit: func(job *api.Job) { job.TaskGroups[0].Tasks[0].Env["PYTHONPATH"] = dir }})
		tr.waitEvent(ctx, "refused by the agent", "version 99")
		tr.waitLog(ctx, "kolo: the agent refuses this process", "version 99")
	})

	t.Run("exits in the middle", func(t *testing.T) {
		tr := fails(t, trainingOptions{args: []string{"--fault=exit", "--fault-step=5", "--exit-code=3"}})
		tr.waitLog(ctx, "fault: exit at step 5")
		tr.waitEvent(ctx, "exit", "3")
	})

	t.Run("forms a group itself", func(t *testing.T) {
		tr := fails(t, trainingOptions{args: []string{"--fault=init"}})
		tr.waitLog(ctx, "init_process_group")
	})

	t.Run("never commits", func(t *testing.T) {
		t.Parallel() // it waits most of the time
		tr := startTorch(ctx, t, c, trainingOptions{args: []string{"--commit-every=0"}})
		tr.waitSize(ctx, 1)
		tr.scale(ctx, 2)
		tr.waitProgress(ctx, 200) // it can't grow, and trains on
		must.Eq(t, []int{1}, tr.record().Sizes())
		must.NoError(t, tr.record().CheckConsecutive())
	})

	t.Run("hangs in a collective", func(t *testing.T) {
		t.Parallel() // it waits most of the time
		tr := startTorch(ctx, t, c, trainingOptions{count: 2, config: map[string]any{"np": 2, "stall_timeout": "10s"},
			args: []string{"--fault=hang", "--fault-step=20", "--fault-rank=1", "--fault-once=" + t.TempDir() + "/hung"}})
		tr.waitLog(ctx, "fault: hang at step 20 on rank 1")
		tr.waitEvent(ctx, "has made no step", "stall_timeout")
		tr.waitStarts(ctx, 3)
		tr.waitSize(ctx, 2)
		must.StrContains(t, tr.stalledAt(ctx, "1"), " misbehave ", must.Sprint("rank 1 was in the function that hangs"))
		must.StrNotContains(t, tr.stalledAt(ctx, "0"), " misbehave ")
		must.NoError(t, tr.record().CheckRollbacks(1))
		must.Len(t, 1, tr.record().PIDs(0))
	})

	t.Run("is stopped", func(t *testing.T) {
		t.Parallel() // it waits most of the time
		tr := startTorch(ctx, t, c, trainingOptions{count: 3, config: map[string]any{"np": 3, "stall_timeout": "auto"}, args: []string{"--audit=1"}})
		checkStopped(ctx, t, tr, 3)
	})
}

// stalledAt returns the functions in which ranks were when their ring was broken, with a space
// around each, and the state of their processes.
func (tr *training) stalledAt(ctx context.Context, ranks string) (text string) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, "the stacks of the stall", func(ctx context.Context) error {
		s, err := tr.reported(ctx)
		if err != nil {
			return err
		}
		if s.Stall == nil || s.Stall.Stacks == nil {
			return fmt.Errorf("the last stall is %+v", s.Stall)
		}
		for _, g := range s.Stall.Stacks.Groups {
			if main := g.Main(); g.Ranks == ranks && main != nil {
				called := []string{string(g.State), ""}
				for _, f := range main.Frames {
					called = append(called, f.Function, "")
				}
				text = strings.Join(called, " ")
				return nil
			}
		}
		return fmt.Errorf("the stacks are %+v", s.Stall.Stacks)
	}))
	tr.t.Logf("ranks %s: %s", ranks, text)
	return text
}

// checkStopped stops rank 1 of a job with stall_timeout = "auto" by SIGSTOP. The rank is replaced
// alone, and training resumes without losing or repeating a sample.
func checkStopped(ctx context.Context, t *testing.T, tr *training, ranks int) {
	t.Helper()
	tr.waitSize(ctx, ranks)
	tr.waitProgress(ctx, 2*stall.Enough)
	must.NoError(t, syscall.Kill(tr.slotOf(1).PID, syscall.SIGSTOP))
	tr.waitEvent(ctx, `(stall_timeout = "auto"); the cause is rank 1`, "stopped by a signal")
	tr.waitStarts(ctx, ranks+1)
	tr.waitSize(ctx, ranks)
	tr.finish(ctx)
	r := tr.record()
	must.Len(t, 1, r.PIDs(0))
	must.NoError(t, r.CheckRollbacks(1))
	must.NoError(t, r.CheckEffective(samples))
	must.NoError(t, r.CheckUses())
}

// A job that is complete trains nothing when it is scaled once more.
func testTorchCompletion(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	tr := startTorch(ctx, t, c, trainingOptions{count: 2})
	tr.waitSize(ctx, 2)
	tr.finish(ctx)
	steps := len(tr.record().Where("step", nil))
	tr.scale(ctx, 3)
	must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
	allocs, err := c.Allocs(ctx, tr.id)
	must.NoError(t, err)
	must.Greater(t, 2, len(allocs))
	for _, a := range allocs {
		must.Eq(t, "complete", a.ClientStatus, must.Sprint(a.Name, cluster.Events(a)))
	}
	must.Len(t, steps, tr.record().Where("step", nil))
}

// editAlso runs one edit of a job after another.
func editAlso(edits ...func(*api.Job)) func(*api.Job) {
	return func(job *api.Job) {
		for _, edit := range edits {
			if edit != nil {
				edit(job)
			}
		}
	}
}
