// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

func TestPodman(t *testing.T) { testEngine(t, podman) }

func TestDocker(t *testing.T) { testEngine(t, docker) }

// testEngine trains under an engine: every step is in the record, whatever happens to
// containers, slots and clients.
func testEngine(t *testing.T, e engine) {
	ctx := testContext(t, 8*time.Minute)
	w := e.startCluster(ctx, t)
	t.Run("planned", func(t *testing.T) { testPlanned(ctx, t, w) })
	t.Run("deaths", func(t *testing.T) { testDeaths(ctx, t, w) })
}

// A job grows, shrinks and completes without losing a step or a sample. Scaled once
// more, it trains nothing.
func testPlanned(ctx context.Context, t *testing.T, w *world) {
	tr := w.start(ctx, t, 1, nil)
	tr.waitSize(ctx, 1)
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)
	tr.scale(ctx, 1)
	tr.waitSize(ctx, 1)
	tr.finish(ctx)
	must.NoError(t, tr.record().CheckConsecutive())
	must.NoError(t, tr.record().CheckSamples(samples))
	must.NoError(t, tr.record().CheckLoss())

	before := tr.record()
	allocs, err := w.Allocs(ctx, tr.id)
	must.NoError(t, err)
	tr.scale(ctx, 2)
	must.NoError(t, cluster.Until(ctx, "workers that end at once", func(ctx context.Context) error {
		after, err := w.Allocs(ctx, tr.id)
		if err != nil {
			return err
		}
		if len(after) <= len(allocs) {
			return errNotYet
		}
		for _, a := range after {
			if a.ClientStatus != api.AllocClientStatusComplete {
				return errNotYet
			}
		}
		return nil
	}))
	must.Eq(t, len(before.Where("step", nil)), len(tr.record().Where("step", nil)))
}

// Training survives what kills a slot or a container, and goes on where it was.
func testDeaths(ctx context.Context, t *testing.T, w *world) {
	tr := w.start(ctx, t, 2, nil)
	tr.waitSize(ctx, 2)

	// A slot dies: its container goes on, and starts it again.
	alloc := tr.allocOn(ctx, w.Nodes[1])
	slots := cluster.Slots(alloc.ID)
	must.Len(t, 1, slots)
	tr.survives(ctx, func() { must.NoError(t, slots[0].Kill()) })
	must.Eq(t, alloc.ID, tr.allocOn(ctx, w.Nodes[1]).ID)

	// A container dies with all that is in it: Nomad starts it again.
	tr.survives(ctx, func() { must.NoError(t, tr.workerOf(alloc.ID).Kill()) })
	tr.waitEvent(ctx, "Exit Code: 137")
	tr.finish(ctx)
	must.NoError(t, tr.record().CheckRollbacks(1))
}

// survives checks that a ring of two goes on after one process of it was replaced.
func (tr *training) survives(ctx context.Context, event func()) {
	tr.t.Helper()
	started := len(tr.record().Where("start", nil))
	event()
	tr.waitStarts(ctx, started+1)
	tr.waitSize(ctx, 2)
}
