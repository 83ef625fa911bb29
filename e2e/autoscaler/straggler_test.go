// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// TestStraggler slows one rank of a real training. The autoscaler names it and its node, and
// no longer does so once it is as fast as the others. The training itself is not affected.
func TestStraggler(t *testing.T) {
	if err := train.Torch.Check(root(t)); err != nil {
		t.Skipf("%v (make build torch sets it up)", err)
	}
	driver, plugin := train.Torch.Plugin(root(t))
	w := startWith(t, cluster.Options{Clients: 3, CPU: 1000, MemoryMB: 4096, Plugins: map[string]string{driver: plugin}})
	d := w.agentWith(t, "one", fmt.Sprintf(configuration, w.Address))
	waitFor(t, time.Minute, "leadership", d.leads)

	fast := filepath.Join(w.Dir, "fast")
	x := w.train(t, train.Torch, "x", "default", 3, "--batch=12", "--step-time=0.2", "--fault=slow", "--fault-step=1", "--fault-rank=1", "--fault-end="+fast)
	w.ring(t, d, "x", 3)
	var job koloapi.Job
	began := time.Now()
	waitFor(t, 5*time.Minute, "the straggler", func() bool {
		job = d.job(t, "x")
		return job.Job != nil && job.Job.Straggler != nil
	})
	s := job.Job.Straggler
	t.Logf("%.0f s after %d steps: %s", time.Since(began).Seconds(), measuredSteps, s.Sentence())
	must.Eq(t, 1, s.Rank)
	i := slices.IndexFunc(job.Allocations, func(a koloapi.JobAllocation) bool { return a.ID == s.AllocID })
	must.NotEq(t, -1, i)
	must.Eq(t, []int{1}, job.Allocations[i].Ranks)
	must.Eq(t, job.Allocations[i].Node, s.Node)
	must.Greater(t, 0.05, s.Behind)
	out, err := d.kolo("job", "x")
	must.NoError(t, err, must.Sprint(out))
	must.StrContains(t, out, "rank 1 on node "+s.Node+" comes last in ")

	must.NoError(t, os.WriteFile(fast, nil, 0o600))
	waitFor(t, 5*time.Minute, "no straggler", func() bool {
		s := d.job(t, "x").Job.Straggler
		return s == nil || s.Rank != 1
	})
	x.finish(t)
	must.NoError(t, w.WaitStatus(bounded(t, 2*time.Minute), "x", "dead"))
	w.succeeded(t, x, 3)
}

// job returns the answer of `kolo job -json`.
func (d *daemon) job(t *testing.T, name string) (job koloapi.Job) {
	t.Helper()
	out, err := d.kolo("job", "-json", name)
	must.NoError(t, err, must.Sprint(out))
	must.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&job))
	return job
}
