// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// The test does what a Nomad user does to allocations and nodes by hand.
func TestLifecycle(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	c := startCluster(t, cluster.Options{})

	t.Run("alloc exec", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		code, out := tr.exec(ctx, tr.running(ctx, 2)[0], "sh", "-c", "echo in $NOMAD_ALLOC_ID; exit 7")
		must.Eq(t, 7, code)
		must.Eq(t, "in "+tr.running(ctx, 2)[0].ID, strings.TrimSpace(out))
		must.NoError(t, tr.record().CheckConsecutive())
	})

	t.Run("alloc signal", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		alloc := tr.allocOf(ctx, 1)
		must.NoError(t, c.API.Allocations().Signal(tr.alloc(ctx, alloc), query(ctx), "train", "SIGUSR1"))
		tr.wait(ctx, "the slot to get the signal", func(r train.Record) error {
			signals := r.Where("signal", nil)
			if len(signals) == 0 {
				return errNotYet
			}
			if len(signals) > 1 || !slices.ContainsFunc(cluster.Slots(alloc.ID), func(p cluster.Process) bool { return p.PID == signals[0].PID }) {
				return &cluster.FatalError{Reason: fmt.Sprintf("others got it: %+v", signals)}
			}
			return nil
		})
		tr.waitProgress(ctx, 10)
		must.NoError(t, tr.record().CheckConsecutive())
	})

	t.Run("alloc restart", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		alloc := tr.allocOf(ctx, 1)
		must.NoError(t, c.API.Allocations().Restart(tr.alloc(ctx, alloc), "", query(ctx)))
		tr.waitStarts(ctx, 3)
		tr.waitSize(ctx, 2)
		must.Eq(t, alloc.ID, tr.allocOf(ctx, 1).ID)
		must.NoError(t, tr.record().CheckConsecutive())
		must.Len(t, 1, tr.record().PIDs(0))
	})

	t.Run("alloc stop", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		alloc := tr.allocOf(ctx, 1)
		_, err := c.API.Allocations().Stop(tr.alloc(ctx, alloc), query(ctx))
		must.NoError(t, err)
		tr.waitStarts(ctx, 3)
		tr.waitSize(ctx, 2)
		must.NotEq(t, alloc.ID, tr.allocOf(ctx, 1).ID)
		must.NoError(t, tr.record().CheckConsecutive())
		must.Len(t, 1, tr.record().PIDs(0))
	})

	t.Run("node drain", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 3, edit: spread})
		tr.waitSize(ctx, 3)
		// Rank 0's node: the ring moves on without it.
		node := c.NodeOf(tr.allocOf(ctx, 0))
		// Batch jobs may go on until the deadline, then they are stopped.
		spec := &api.DrainSpec{Deadline: time.Second}
		_, err := c.API.Nodes().UpdateDrainOpts(node.ID, &api.DrainOptions{DrainSpec: spec}, new(api.WriteOptions).WithContext(ctx))
		must.NoError(t, err)
		t.Cleanup(func() {
			_, err := c.API.Nodes().UpdateDrainOpts(node.ID, &api.DrainOptions{MarkEligible: true}, nil)
			must.NoError(t, err)
		})
		// Nomad places nothing for a batch allocation that a drain stopped
		// (MigrateDisablePlacement); a scaling of the job brings it back.
		tr.waitSize(ctx, 2)
		tr.scale(ctx, 3)
		tr.waitSize(ctx, 3)
		for _, a := range tr.running(ctx, 3) {
			must.NotEq(t, node.ID, a.NodeID)
		}
		must.NoError(t, tr.record().CheckConsecutive())
		must.Len(t, 2, tr.record().PIDs(0))
	})

	t.Run("job stop", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2})
		tr.waitSize(ctx, 2)
		must.NoError(t, c.StopJob(ctx, tr.id, false))
		must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
		must.NoError(t, cluster.Until(ctx, "the processes to end", func(context.Context) error {
			if left := tr.processes(); len(left) > 0 {
				return fmt.Errorf("%d are left", len(left))
			}
			return nil
		}))
		must.NoError(t, cluster.Until(ctx, "the allocations to be complete", func(ctx context.Context) error {
			allocs, err := c.Allocs(ctx, tr.id)
			if err != nil {
				return err
			}
			for _, a := range allocs {
				if a.ClientStatus != "complete" || a.TaskStates["train"].Failed {
					return fmt.Errorf("%s is %s", a.Name, a.ClientStatus)
				}
			}
			return nil
		}))
		must.NoError(t, tr.record().CheckConsecutive())
		must.SliceEmpty(t, tr.record().Where("done", nil))
	})
}

func query(ctx context.Context) *api.QueryOptions { return new(api.QueryOptions).WithContext(ctx) }

// alloc gets what the API wants for an allocation's own endpoints.
func (tr *training) alloc(ctx context.Context, stub *api.AllocationListStub) *api.Allocation {
	tr.t.Helper()
	alloc, _, err := tr.c.API.Allocations().Info(stub.ID, query(ctx))
	must.NoError(tr.t, err)
	return alloc
}

// exec runs a command in an allocation, as `nomad alloc exec` does.
func (tr *training) exec(ctx context.Context, stub *api.AllocationListStub, command ...string) (int, string) {
	tr.t.Helper()
	var out bytes.Buffer
	code, err := tr.c.API.Allocations().Exec(ctx, tr.alloc(ctx, stub), "train", false, command,
		strings.NewReader(""), &out, &out, nil, nil)
	must.NoError(tr.t, err)
	return code, out.String()
}

// waitStarts waits until n training processes have been started in all.
func (tr *training) waitStarts(ctx context.Context, n int) {
	tr.t.Helper()
	tr.wait(ctx, fmt.Sprintf("%d processes started", n), func(r train.Record) error {
		if got := len(r.Where("start", nil)); got < n {
			return fmt.Errorf("%d were", got)
		}
		return nil
	})
}
