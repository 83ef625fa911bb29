// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// commitEvery is the number of steps between commits in the tests that kill.
const commitEvery = 5

// spread places one worker per node as long as there are enough nodes.
func spread(job *api.Job) {
	job.Spreads = []*api.Spread{api.NewSpread("${node.unique.id}", 100, nil)}
	job.TaskGroups[0].Tasks[0].Config["gloo_timeout"] = "5s"
}

// Whatever is killed, training resumes from the last commit at the earliest. The scenarios
// follow each other in one training if possible.
func TestKill(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	c := startCluster(t, cluster.Options{})
	// A ring of 3, one per node.
	whole := startTraining(ctx, t, c, trainingOptions{
		count: 3, edit: spread, args: []string{fmt.Sprintf("--commit-every=%d", commitEvery)},
	})
	whole.waitSize(ctx, 3)

	// untouched checks that training did not notice.
	untouched := func(tr *training) {
		t := tr.t
		t.Helper()
		must.NoError(t, tr.record().CheckConsecutive())
		must.Len(t, 1, tr.record().PIDs(0))
		must.Len(t, 3, tr.record().Where("start", nil))
	}
	t.Run("the plugin", func(t *testing.T) {
		tr := whole.in(t)
		plugins := c.NodeOf(tr.allocOf(ctx, 1)).Plugins()
		must.SliceNotEmpty(t, plugins)
		for _, p := range plugins {
			must.NoError(t, p.Kill())
		}
		tr.waitProgress(ctx, 60)
		untouched(tr)
	})

	t.Run("a Nomad client", func(t *testing.T) {
		tr := whole.in(t)
		node := c.NodeOf(tr.allocOf(ctx, 2))
		must.NoError(t, node.Kill())
		tr.waitProgress(ctx, 20)
		must.NoError(t, node.Start(ctx))
		tr.waitProgress(ctx, 60)
		untouched(tr)
	})

	t.Run("new ones are in charge of the old tasks", func(t *testing.T) {
		tr := whole.in(t)
		tr.scale(ctx, 1)
		tr.waitSize(ctx, 1)
		must.NoError(t, tr.record().CheckConsecutive())
		tr.scale(ctx, 3)
		tr.waitSize(ctx, 3)
	})

	// lose kills, and checks that the ring is whole again, and what it did meanwhile. It
	// returns the process that is rank 0 before and after.
	lose := func(tr *training, kill func()) (before, after int) {
		tr.t.Helper()
		started := len(tr.record().Where("start", nil))
		before = tr.record().Last().PID
		kill()
		tr.waitStarts(ctx, started+1)
		tr.waitSize(ctx, 3)
		must.NoError(tr.t, tr.record().CheckRollbacks(commitEvery))
		return before, tr.record().Last().PID
	}
	t.Run("a slot", func(t *testing.T) {
		tr := whole.in(t)
		before, after := lose(tr, func() { must.NoError(t, tr.slotOf(1).Kill()) })
		must.Eq(t, before, after)
	})

	t.Run("the slot that is rank 0", func(t *testing.T) {
		tr := whole.in(t)
		before, after := lose(tr, func() { must.NoError(t, tr.slotOf(0).Kill()) })
		must.NotEq(t, before, after)
	})

	t.Run("an agent", func(t *testing.T) {
		tr := whole.in(t)
		agents := cluster.Agents(tr.allocOf(ctx, 2).ID)
		must.Len(t, 1, agents)
		before, after := lose(tr, func() { must.NoError(t, agents[0].Kill()) })
		must.Eq(t, before, after)
	})

	t.Run("the leader's whole allocation", func(t *testing.T) {
		tr := whole.in(t)
		lose(tr, func() { killAlloc(t, leader(ctx, t, tr).ID) })
	})
}

// A restarted slot does not have the state, so its host's ranks no longer follow the local
// ranks.
func TestKillSlotsOfHostsWithSeveral(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	tr := startTraining(ctx, t, startCluster(t, cluster.Options{}), trainingOptions{
		vars: cluster.Vars{"slots": 2}, count: 2, edit: spread, args: []string{fmt.Sprintf("--commit-every=%d", commitEvery)},
	})
	tr.waitSize(ctx, 4)
	for _, ranks := range [][]int{{0}, {3}, {0, 2}} {
		started := len(tr.record().Where("start", nil))
		var victims []cluster.Process
		for _, rank := range ranks {
			victims = append(victims, tr.slotOf(rank))
		}
		for _, p := range victims {
			must.NoError(t, p.Kill())
		}
		tr.waitStarts(ctx, started+len(ranks))
		tr.waitSize(ctx, 4)
		must.NoError(t, tr.record().CheckRollbacks(commitEvery))
	}
}

const wholeAllocation = "the leader's whole allocation"

// A process dies in the middle of a rendezvous: as soon as a newcomer is up, the ring is
// about to add it.
func TestKillInRendezvous(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	c := startCluster(t, cluster.Options{})

	victims := map[string]func(*testing.T, *training, train.Event){
		"the newcomer": func(t *testing.T, _ *training, newcomer train.Event) {
			must.NoError(t, cluster.Process{PID: newcomer.PID}.Kill())
		},
		"an old member": func(t *testing.T, tr *training, _ train.Event) {
			must.NoError(t, tr.slotOf(1).Kill())
		},
		wholeAllocation: func(t *testing.T, tr *training, _ train.Event) {
			killAlloc(t, leader(ctx, t, tr).ID)
		},
	}
	// While processes connect, Gloo aborts those that wait for one that died, or keeps them
	// waiting. No other process replaces it if its agent is gone, too, or if some have
	// already read its address. Then training resumes from the script's checkpoint: from
	// the last commit, if the script writes one with each.
	whole := startTraining(ctx, t, c, trainingOptions{count: 2, edit: spread,
		config: map[string]any{"on_ring_lost": "restart"},
		args: []string{
			fmt.Sprintf("--commit-every=%d", commitEvery),
			"--checkpoint=" + filepath.Join(t.TempDir(), "checkpoint"),
			fmt.Sprintf("--checkpoint-every=%d", commitEvery),
		}})
	for name, kill := range victims {
		t.Run(name, func(t *testing.T) {
			tr := whole.in(t)
			tr.waitSize(ctx, 2)
			started := len(tr.record().Where("start", nil))
			tr.scale(ctx, 3)
			var newcomer train.Event
			tr.wait(ctx, "the newcomer to be up", func(r train.Record) error {
				starts := r.Where("start", nil)
				if len(starts) <= started {
					return errNotYet
				}
				newcomer = starts[started]
				return nil
			})
			kill(t, tr, newcomer)
			tr.waitSize(ctx, 3)
			must.NoError(t, tr.record().CheckRollbacks(commitEvery))
			tr.scale(ctx, 2) // for the next one
		})
	}
}

// A node is cut off from the network for a minute and comes back. The others train on, the
// cut-off part does not, and in the end there is one ring.
func TestCutOff(t *testing.T) {
	t.Parallel() // it waits most of the time
	for name, victim := range map[string]struct {
		index int
		torch bool
	}{
		"a worker":       {1, false},
		"the leader":     {0, false},
		"torch's leader": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			ctx := testContext(t, 6*time.Minute)
			tr := startOnThree(ctx, t, victim.torch)
			c := tr.c
			if !c.Isolated() {
				t.Skip(cluster.ErrShared)
			}
			tr.waitSize(ctx, 3)
			alloc := tr.running(ctx, 3)[victim.index]
			node := c.NodeOf(alloc)
			var lost []int
			for _, p := range cluster.Slots(alloc.ID) {
				lost = append(lost, p.PID)
			}
			must.SliceNotEmpty(t, lost)

			must.NoError(t, node.Cut(ctx))
			cut := time.Now()
			// Not all wait alike: the others go on once Horovod notices, and
			// Nomad replaces the lost worker on one of their nodes.
			tr.waitSize(ctx, 3)
			t.Logf("a ring of 3 again after %s", time.Since(cut).Round(time.Second))
			pause(t, time.Until(cut.Add(time.Minute)))
			must.NoError(t, node.Restore(ctx))
			must.NoError(t, cluster.Until(ctx, "the node to be ready again", func(ctx context.Context) error {
				info, err := node.Info(ctx)
				if err == nil && info.Status != api.NodeStatusReady {
					err = fmt.Errorf("it is %s", info.Status)
				}
				return err
			}))
			must.NoError(t, cluster.Until(ctx, "the worker that was cut off to end", func(context.Context) error {
				if slots := cluster.Slots(alloc.ID); len(slots) > 0 {
					return fmt.Errorf("process %d runs", slots[0].PID)
				}
				return nil
			}))
			tr.waitSize(ctx, 3)

			r := tr.record()
			must.NoError(t, r.CheckRollbacks(1))
			for _, e := range r.Where("step", func(e train.Event) bool { return slices.Contains(lost, e.PID) }) {
				// It may have had one step's data when the cable was pulled.
				must.Less(t, 10*time.Second, e.Time().Sub(cut), must.Sprintf("%+v after the cut", e))
			}
		})
	}
}

// startOnThree starts a job of three workers on as many nodes of a cluster of its
// own.
func startOnThree(ctx context.Context, t *testing.T, torch bool) *training {
	t.Helper()
	if torch {
		return startTorch(ctx, t, startTorchCluster(t), trainingOptions{count: 3})
	}
	return startTraining(ctx, t, startCluster(t, cluster.Options{}), trainingOptions{count: 3, edit: spread})
}

// leader returns the allocation whose agent leads: the lowest index.
func leader(ctx context.Context, t *testing.T, tr *training) *api.AllocationListStub {
	t.Helper()
	running, err := tr.c.Running(ctx, tr.id)
	must.NoError(t, err)
	must.SliceNotEmpty(t, running)
	return running[0]
}

// killAlloc kills everything that runs in an allocation.
func killAlloc(t *testing.T, allocID string) {
	t.Helper()
	processes := cluster.Processes(func(p cluster.Process) bool { return p.Env["NOMAD_ALLOC_ID"] == allocID })
	must.SliceNotEmpty(t, processes)
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.Kill())
	}
	// Slots may go by themselves once their agent is gone.
	must.True(t, slices.Contains(errs, nil), must.Sprint(errors.Join(errs...)))
}
