// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// `nomad job scale` grows and shrinks a ring that trains on: with the same rank 0
// throughout, strictly consecutive steps, and each sample once an epoch. Then the job ends
// well, and scaling it once more trains nothing.
func TestScale(t *testing.T) {
	ctx := testContext(t, 5*time.Minute)
	c := startCluster(t, cluster.Options{Grace: cluster.Patient})
	tr := startTraining(ctx, t, c, trainingOptions{})
	tr.waitSize(ctx, 1)
	for _, n := range []int{4, 2, 3} {
		tr.scale(ctx, n)
		tr.waitSize(ctx, n)
		if n == 4 {
			checkMemory(ctx, t, tr)
		}
	}
	for _, z := range tr.record().Resizes() {
		t.Logf("%d→%d: gap %s", z.From, z.To, z.Gap().Round(time.Millisecond))
	}

	tr.finish(ctx)
	tr.checkPlanned()
	must.NoError(t, tr.record().CheckLoss())
	allocs, err := c.Allocs(ctx, tr.id)
	must.NoError(t, err)
	for _, a := range allocs {
		must.Eq(t, "complete", a.ClientStatus, must.Sprint(a.Name, cluster.Events(a)))
		must.False(t, a.TaskStates["train"].Failed)
	}

	// Nomad starts completed workers of a batch job again when it is scaled.
	before := tr.record()
	tr.scale(ctx, 4)
	must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
	after, err := c.Allocs(ctx, tr.id)
	must.NoError(t, err)
	must.Greater(t, len(allocs), len(after))
	for _, a := range after {
		must.Eq(t, "complete", a.ClientStatus, must.Sprint(a.Name, cluster.Events(a)))
	}
	must.Eq(t, len(before.Where("step", nil)), len(tr.record().Where("step", nil)))
}

// checkMemory reports the memory of a ring's agents. An agent runs the
// same program as the plugin and as Nomad's executor, and they share its pages:
// on a node with one task, each takes a third of them. (Here several nodes
// share one machine, so the kernel's own count of shares would be too good.)
func checkMemory(ctx context.Context, t *testing.T, tr *training) {
	t.Helper()
	allocs, err := tr.c.Running(ctx, tr.id)
	must.NoError(t, err)
	for _, a := range allocs {
		for _, p := range cluster.Agents(a.ID) {
			resident, own, err := p.Memory()
			must.NoError(t, err)
			share := own + (resident-own)/3
			t.Logf("agent of %s: %.1f MB: %.1f MB of its own, and its share of the program (resident: %.1f MB)",
				a.Name, float64(share)/1e6, float64(own)/1e6, float64(resident)/1e6)
			must.Less(t, 25_000_000, share)
		}
	}
}

// Hosts with two slots each come and go as wholes.
func TestScaleSlots(t *testing.T) {
	ctx := testContext(t, 5*time.Minute)
	c := startCluster(t, cluster.Options{Grace: cluster.Patient})
	tr := startTraining(ctx, t, c, trainingOptions{vars: cluster.Vars{"slots": 2}})
	tr.waitSize(ctx, 2)
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 4)
	tr.scale(ctx, 1)
	tr.waitSize(ctx, 2)
	tr.finish(ctx)
	tr.checkPlanned()
}

// The ring trains on while a newcomer takes a minute to start, and then adds it.
func TestSlowNewcomer(t *testing.T) {
	t.Parallel() // it waits most of the time
	ctx := testContext(t, 5*time.Minute)
	c := startCluster(t, cluster.Options{Grace: cluster.Patient})
	testSlowNewcomer(ctx, t, startTraining(ctx, t, c, trainingOptions{}), time.Minute)
}

// testSlowNewcomer lets a ring of 1 train on while a newcomer takes its time to
// start.
func testSlowNewcomer(ctx context.Context, t *testing.T, tr *training, starts time.Duration) {
	t.Helper()
	tr.waitSize(ctx, 1)
	tr.write("import-time", strconv.FormatFloat(starts.Seconds(), 'f', -1, 64))
	asked := time.Now()
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)

	resizes := tr.record().Resizes()
	must.Len(t, 1, resizes)
	must.Greater(t, starts, resizes[0].After.Time().Sub(asked))
	// A ring that waited would have stood still for as long. The bound is for a
	// busy machine; `make bench` measures the gap.
	must.Less(t, 10*time.Second, resizes[0].Gap())
	tr.finish(ctx)
	tr.checkPlanned()
}

// The last count applies, however soon it follows another.
func TestQuickResizes(t *testing.T) {
	ctx := testContext(t, 8*time.Minute)
	c := startCluster(t, cluster.Options{Grace: cluster.Patient})

	t.Run("one second apart", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{})
		tr.waitSize(ctx, 1)
		tr.scale(ctx, 4)
		pause(t, time.Second)
		tr.scale(ctx, 2)
		tr.waitSize(ctx, 2)
		tr.scale(ctx, 1)
		pause(t, time.Second)
		tr.scale(ctx, 3)
		tr.waitSize(ctx, 3)
		tr.finish(ctx)
		tr.checkPlanned()
	})

	// Horovod's cache of responses outlives a ring: with it, survivors and newcomers would
	// fuse tensors in different orders.
	t.Run("of tensors that are fused", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{
			args: []string{"--ballast=10"}, config: map[string]any{"horovod": []map[string]any{{"cycle_time_ms": 10}}},
		})
		tr.waitSize(ctx, 1)
		for _, size := range []int{2, 1, 2} {
			tr.scale(ctx, size)
			tr.waitSize(ctx, size)
		}
		tr.finish(ctx)
		tr.checkPlanned()
	})

	t.Run("while the ring re-forms", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{})
		tr.waitSize(ctx, 1)
		for _, wish := range []struct{ first, then int }{{2, 4}, {3, 2}, {4, 1}} {
			rings := len(tr.record().Where("ring", nil))
			tr.scale(ctx, wish.first)
			// The first rank of the new ring is through: the others are about.
			tr.wait(ctx, "the ring to re-form", func(r train.Record) error {
				if len(r.Where("ring", nil)) == rings {
					return errNotYet
				}
				return nil
			})
			tr.scale(ctx, wish.then)
			tr.waitSize(ctx, wish.then)
		}
		tr.finish(ctx)
		tr.checkPlanned()
	})
}

// All hosts are replaced at once, as by a changed jobspec. The job moves to the new ones
// without losing a step.
func TestReplaceAll(t *testing.T) {
	ctx := testContext(t, 5*time.Minute)
	c := startCluster(t, cluster.Options{Grace: cluster.Patient})
	tr := startTraining(ctx, t, c, trainingOptions{
		count:  2,
		config: map[string]any{"leave_timeout": "55s"},
		edit:   func(job *api.Job) { job.TaskGroups[0].Tasks[0].KillTimeout = ptr(time.Minute) },
	})
	tr.waitSize(ctx, 2)
	old := tr.running(ctx, 2)

	tr.task().Env = map[string]string{"CHANGED": "yes"}
	must.NoError(t, c.RegisterJob(ctx, tr.job))
	must.NoError(t, cluster.Until(ctx, "both hosts to be replaced", func(ctx context.Context) error {
		running, err := c.Running(ctx, tr.id)
		if err == nil && (len(running) != 2 || running[0].ID == old[0].ID || running[1].ID == old[1].ID) {
			err = errNotYet
		}
		return err
	}))
	tr.waitSize(ctx, 2)
	tr.finish(ctx)
	r := tr.record()
	must.NoError(t, r.CheckConsecutive())
	must.NoError(t, r.CheckSamples(samples))
}
