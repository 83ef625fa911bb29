// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// epochSamples make an epoch, with which a job ends on demand.
const epochSamples = 240

// TestTraining lets the autoscaler share a cluster between two real training jobs,
// one with Horovod and one with PyTorch's own process groups. The first has all
// slots, gives half away when the second arrives, and gets more than half when the
// policy is changed. The second has all slots when the first is complete. Nothing
// is restarted, and no step or sample is lost.
func TestTraining(t *testing.T) {
	plugins := map[string]string{}
	for _, f := range []train.Framework{train.Horovod, train.Torch} {
		if err := f.Check(root(t)); err != nil {
			t.Skipf("%v (make build horovod torch sets it up)", err)
		}
		driver, config := f.Plugin(root(t))
		plugins[driver] = config
	}
	// Four slots: as many training processes as two cores can bear.
	w := startWith(t, cluster.Options{
		Clients: 2, CPU: 2000, MemoryMB: 4096,
		Plugins: plugins,
	})
	queues := strings.Replace(configuration, "policy \"elastic-fifo\" {}", "policy \"elastic-fifo\" {}\n  queue \"research\" {}\n  queue \"teaching\" {}", 1)
	d := w.agentWith(t, "one", fmt.Sprintf(queues, w.Address))
	waitFor(t, time.Minute, "leadership", d.leads)

	// Ranks of the first share a batch, so that a step gets shorter with more of
	// them; those of the second have one each, so that a step does more.
	a := w.train(t, train.Horovod, "a", "research", 4, "--global-batch=48", "--step-time=0.05", "--sample-time=0.025")
	w.ring(t, d, "a", 4)
	b := w.train(t, train.Torch, "b", "teaching", 2, "--batch=12", "--step-time=0.3")
	w.ring(t, d, "a", 2)
	w.ring(t, d, "b", 2)

	out, err := d.kolo("policy", "set", "weighted-fair(shares={research=3})")
	must.NoError(t, err, must.Sprint(out))
	w.ring(t, d, "a", 3)
	w.ring(t, d, "b", 1)

	a.finish(t)
	must.NoError(t, w.WaitStatus(bounded(t, 2*time.Minute), "a", "dead"))
	version := w.version(t, "a")
	w.ring(t, d, "b", 4)
	must.Eq(t, version, w.version(t, "a"), must.Sprint("a completed job was touched"))
	for name, state := range map[string]string{"a": koloapi.StateComplete, "b": koloapi.StateRunning} {
		curve := speedup.NewCurve(d.knows(t, name, state)...)
		must.Less(t, curve.Time(2), curve.Time(4), must.Sprintf("%s gains nothing by more workers: %v", name, curve.Points()))
	}

	d.accounts(t, "a", "b")

	b.finish(t)
	must.NoError(t, w.WaitStatus(bounded(t, 2*time.Minute), "b", "dead"))
	w.neverTooMuch(t, "a", "b")
	w.succeeded(t, a, 4, 2, 3)
	w.succeeded(t, b, 2, 1, 4)
}

func bounded(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// training is a job that trains until it is finished on demand.
type training struct{ name, dir string }

// specs are the jobspecs of frameworks, with settings that make them light. Horovod's ranks
// talk every millisecond by default, which would take most of a small machine.
var specs = map[string]struct {
	file   string
	config map[string]any
}{
	train.Horovod.Name: {"horovod", map[string]any{"horovod": []map[string]any{{"cycle_time_ms": 10}}}},
	train.Torch.Name:   {"torch", nil},
}

// train submits the training job of a framework.
func (w *world) train(t *testing.T, f train.Framework, name, queue string, np int, args ...string) training {
	t.Helper()
	tr, job := w.training(t, f, name, np, args...)
	job.TaskGroups[0].Scaling.Policy = map[string]any{"kolo": []map[string]any{{"min": 1, "queue": queue}}}
	must.NoError(t, w.RegisterJob(t.Context(), job))
	return tr
}

// training returns the CPU jobspec of a framework, made elastic for the autoscaler, with
// the test's script and its arguments. Its first ring has np ranks: with fewer, the
// worker that is there first would be rank 0, and on a busy machine that may be one
// that the first shrink takes.
func (w *world) training(t *testing.T, f train.Framework, name string, np int, args ...string) (training, *api.Job) {
	t.Helper()
	dir := filepath.Join(w.Dir, "training", name)
	must.NoError(t, os.MkdirAll(dir, 0o777))
	spec, command := specs[f.Name], f.Command(root(t))
	text, err := os.ReadFile(filepath.Join(root(t), "jobspecs", spec.file+".nomad.hcl"))
	must.NoError(t, err)
	job, err := w.Parse(string(text), cluster.Vars{
		"count": 0, "python": command[0], "script": command[1], "isolation": "none",
		"args": append(args,
			"--epochs=100000", fmt.Sprintf("--samples=%d", epochSamples),
			"--records="+filepath.Join(dir, "records"), "--stop-file="+filepath.Join(dir, "stop"),
		),
	})
	must.NoError(t, err)
	group := job.TaskGroups[0]
	group.Scaling.Min = new(int64(0))
	task := group.Tasks[0]
	maps.Copy(task.Config, spec.config)
	task.Config["np"] = np
	task.Env = f.Env(root(t))
	job.ID, job.Name = &name, &name
	group.Services[0].Name, task.Config["service"] = name, name
	return training{name, dir}, job
}

// finish ends the training with its epoch.
func (tr training) finish(t *testing.T) {
	t.Helper()
	must.NoError(t, os.WriteFile(filepath.Join(tr.dir, "stop"), nil, 0o600))
}

// measuredSteps is large enough that one step during which the machine stood still does not
// make a size look slow: policies would believe that for minutes.
const measuredSteps = 16

// ring waits until a job's count, and the ring that the agent learns of from
// the job itself, have a size, and enough steps of that size were measured.
func (w *world) ring(t *testing.T, d *daemon, name string, size int) {
	t.Helper()
	var last koloapi.JobStatus
	defer func() {
		t.Logf("%s: %d workers, a ring of %d at step %.0f, gaps %v, step times %v", name, last.Running, last.Size, last.Step, last.Gaps, last.StepTimes)
	}()
	waitFor(t, 2*time.Minute, fmt.Sprintf("%d ranks in the ring of %s", size, name), func() bool {
		s, err := d.status()
		if err != nil {
			return false
		}
		for _, j := range s.Jobs {
			if j.ID == name {
				last = j
				return j.Size == size && j.Count == size && j.Running == size && slices.ContainsFunc(j.StepTimes, func(p speedup.Point) bool { return p.Size == size && p.Samples >= measuredSteps })
			}
		}
		return false
	})
}

// knows checks what `kolo status -json` reports of a job that has trained, and
// returns the step times that were measured.
func (d *daemon) knows(t *testing.T, name, state string) []speedup.Point {
	t.Helper()
	out, err := d.kolo("status", "-json")
	must.NoError(t, err, must.Sprint(out))
	var s koloapi.Status
	must.NoError(t, json.Unmarshal([]byte(out), &s))
	i := slices.IndexFunc(s.Jobs, func(j koloapi.JobStatus) bool { return j.ID == name })
	must.NotEq(t, -1, i)
	j := s.Jobs[i]
	must.Eq(t, state, j.State)
	must.Positive(t, j.Step)
	must.Greater(t, j.Step, j.Total)
	must.NotNil(t, j.Loss)
	must.GreaterEq(t, 2, len(j.Gaps))
	for _, g := range j.Gaps {
		must.NotNil(t, g.Seconds)
		must.Positive(t, *g.Seconds)
		must.Eq(t, new(float64), g.Lost)
	}
	must.Eq(t, new(float64), j.LostSteps)
	must.GreaterEq(t, 3, len(j.StepTimes))
	return j.StepTimes
}

// succeeded checks what became of a job: no worker failed, one process was rank
// 0 throughout, no step or sample was lost or repeated, and the ring had these
// sizes one after the other (others between are rings in the making).
func (w *world) succeeded(t *testing.T, tr training, sizes ...int) {
	t.Helper()
	allocs, err := w.Allocs(t.Context(), tr.name)
	must.NoError(t, err)
	for _, a := range allocs {
		must.Eq(t, api.AllocClientStatusComplete, a.ClientStatus, must.Sprint(cluster.Events(a)))
	}
	record, err := train.Read(filepath.Join(tr.dir, "records"))
	must.NoError(t, err)
	must.NoError(t, record.CheckConsecutive())
	must.NoError(t, record.CheckSamples(epochSamples))
	must.Len(t, 1, record.PIDs(0))
	trained := record.Sizes()
	t.Logf("%s: %d steps in rings of %v", tr.name, record.Last().Step, trained)
	for _, want := range sizes {
		i := slices.Index(trained, want)
		must.NotEq(t, -1, i, must.Sprintf("%s had no ring of %d in its turn: %v", tr.name, want, record.Sizes()))
		trained = trained[i+1:]
	}
}
