// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// TestSpares lends the one slot that is left to a spare. A node is lost with its client and all
// its tasks: the spare replaces its worker, and the ring has its size again. Then a second job
// arrives and gets the slot of the next spare, and the ring has its size as before.
func TestSpares(t *testing.T) {
	if os.Getenv(givenNomad) != "" {
		t.Skip("kills a client")
	}
	if err := train.Torch.Check(root(t)); err != nil {
		t.Skipf("%v (make build torch sets it up)", err)
	}
	driver, config := train.Torch.Plugin(root(t))
	w := startWith(t, cluster.Options{Clients: 4, CPU: 1000, MemoryMB: 2048, Plugins: map[string]string{driver: config}})
	text := strings.Replace(fmt.Sprintf(configuration, w.Address), "planner {", "planner {\n  placement_retry = \"2s\"", 1)
	d := w.agentWith(t, "one", text)
	waitFor(t, time.Minute, "leadership", d.leads)

	const size = 3
	tr, job := w.training(t, train.Torch, "a", size, "--batch=12", "--step-time=0.2", "--commit-every=1")
	group := job.TaskGroups[0]
	group.Scaling.Max = new(int64(size + 1))
	group.Scaling.Policy = map[string]any{"kolo": []map[string]any{{"min": size, "spare": 1}}}
	must.NoError(t, w.RegisterJob(t.Context(), job))
	spares := w.spare(t, d, tr, nil)

	alloc := w.allocOfRank(t, tr, 1)
	node := w.NodeOf(alloc)
	plugins := node.Plugins()
	killed := time.Now()
	must.NoError(t, node.Kill())
	for _, p := range cluster.Processes(func(p cluster.Process) bool { return p.Env["NOMAD_ALLOC_ID"] == alloc.ID }) {
		_ = p.Kill() // it may have ended with its agent
	}
	for _, p := range plugins {
		_ = p.Kill() // it may have ended with the client
	}
	took := tr.resumed(t, killed, size)
	t.Logf("%.2f s from the last step to the next of %d ranks", took.Seconds(), size)
	must.NoError(t, node.Start(t.Context()))
	w.spare(t, d, tr, spares) // the lost allocation, if its client restarts it before Nomad replaces it
	t.Logf("rings of %v", tr.record(t).Sizes())

	w.submit(t, "b", "max = 1")
	w.eventually(t, 2*time.Minute, map[string]int{"a": size, "b": 1})
	_, err := w.WaitRunning(bounded(t, 2*time.Minute), "b", 1)
	must.NoError(t, err)
	w.hasSpares(t, d, "a", size, 0)
	tr.steps(t, 20)

	// A spare that is not ready delays no ring, so a smaller one may come between.
	must.Eq(t, size, tr.record(t).Last().Size)
	t.Logf("rings of %v", tr.record(t).Sizes())
	tr.finish(t)
	must.NoError(t, w.WaitStatus(bounded(t, 2*time.Minute), "a", "dead"))
}

// hasSpares waits until the autoscaler reports the size and the spares of a job.
func (w *world) hasSpares(t *testing.T, d *daemon, name string, size, spares int) {
	t.Helper()
	last := ""
	defer func() { t.Log(last) }()
	waitFor(t, 5*time.Minute, fmt.Sprintf("%d workers and %d spares of %s", size, spares, name), func() bool {
		s, err := d.status()
		if err != nil {
			return false
		}
		for _, j := range s.Jobs {
			if j.ID == name {
				last = fmt.Sprintf("%s: %d workers, %d spares, a ring of %d", name, j.Count, j.Spares, j.Size)
				return j.Count == size && j.Running == size && j.Spares == spares && j.Size == size
			}
		}
		return false
	})
}

// spare waits for a spare that is ready, and is none of the given allocations. It returns these
// and the spare.
func (w *world) spare(t *testing.T, d *daemon, tr training, before []string) []string {
	t.Helper()
	w.hasSpares(t, d, tr.name, 3, 1)
	var found string
	waitFor(t, 5*time.Minute, "a spare that is ready", func() bool {
		allocs, err := w.Running(t.Context(), tr.name)
		if err != nil {
			return false
		}
		for _, a := range allocs {
			if strings.Contains(strings.Join(cluster.Events(a), "\n"), "this host is a spare") && !slices.Contains(before, a.ID) {
				found = a.ID
			}
		}
		return found != ""
	})
	return append(before, found)
}

func (tr training) record(t *testing.T) train.Record {
	t.Helper()
	record, err := train.Read(filepath.Join(tr.dir, "records"))
	must.NoError(t, err)
	return record
}

// allocOfRank returns the allocation that has a rank in the newest ring.
func (w *world) allocOfRank(t *testing.T, tr training, rank int) *api.AllocationListStub {
	t.Helper()
	steps := tr.record(t).Where("step", func(e train.Event) bool { return e.Rank == rank })
	must.SliceNotEmpty(t, steps)
	processes := cluster.Processes(func(p cluster.Process) bool { return p.PID == steps[len(steps)-1].PID })
	must.Len(t, 1, processes)
	id := processes[0].Env["NOMAD_ALLOC_ID"]
	allocs, err := w.Running(t.Context(), tr.name)
	must.NoError(t, err)
	for _, a := range allocs {
		if a.ID == id {
			return a
		}
	}
	t.Fatalf("no running allocation has rank %d", rank)
	return nil
}

// resumed waits for a ring of a size after the given time. It returns the time between the last
// step before and the first step of that ring.
func (tr training) resumed(t *testing.T, since time.Time, size int) time.Duration {
	t.Helper()
	var before, after train.Event
	waitFor(t, 5*time.Minute, "the next ring", func() bool {
		for _, e := range tr.record(t).Leading() {
			switch {
			case e.Time().Before(since):
				before = e
			case e.Size == size && e.Generation > before.Generation:
				after = e
				return true
			}
		}
		return false
	})
	return after.Time().Sub(before.Time())
}

// steps waits for more steps.
func (tr training) steps(t *testing.T, n int) {
	t.Helper()
	from := tr.record(t).Last().Step
	waitFor(t, 2*time.Minute, "more steps", func() bool { return tr.record(t).Last().Step >= from+n })
}
