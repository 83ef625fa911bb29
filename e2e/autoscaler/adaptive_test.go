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
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// adaptiveSteps is what the training declares as its length, in steps with its initial batch.
const adaptiveSteps = 1_000_000

// adaptiveStep is a step of testdata/adaptive.py.
type adaptiveStep struct {
	Kind     string  `json:"kolo"`
	Rank     int     `json:"rank"`
	Size     int     `json:"size"`
	Step     int     `json:"step"`
	Epoch    int     `json:"epoch"`
	Indices  []int   `json:"indices"`
	Progress float64 `json:"progress"`
	Total    int     `json:"total"`
}

// TestAdaptiveBatch shares a cluster between a training whose batch adapts and one whose batch
// is fixed, under policy kolo. Sizes and batches change, the autoscaler counts progress in steps
// with the initial batch, and each sample is used once per epoch. Then the operator forbids it.
func TestAdaptiveBatch(t *testing.T) {
	if err := train.Torch.Check(root(t)); err != nil {
		t.Skipf("%v (make build torch sets it up)", err)
	}
	driver, plugin := train.Torch.Plugin(root(t))
	w := startWith(t, cluster.Options{Clients: 2, CPU: 2000, MemoryMB: 4096, Plugins: map[string]string{driver: plugin}})
	text := strings.Replace(configuration, `policy "elastic-fifo" {}`, `policy "kolo" {}`, 1)
	text = strings.Replace(text, "planner {", "planner {\n  resize_cost = \"1s\"", 1)
	d := w.agentWith(t, "one", fmt.Sprintf(text, w.Address))
	waitFor(t, time.Minute, "leadership", d.leads)

	a, job := w.training(t, train.Torch, "a", 1, fmt.Sprintf("--total-steps=%d", adaptiveSteps))
	group := job.TaskGroups[0]
	group.Scaling.Max = new(int64(4))
	group.Scaling.Policy = map[string]any{"kolo": []map[string]any{{"min": 1}}}
	script, err := filepath.Abs("testdata/adaptive.py")
	must.NoError(t, err)
	useScript(t, group.Tasks[0].Config, script)
	must.NoError(t, w.RegisterJob(t.Context(), job))
	first := d.adapts(t, "a", func(j *koloapi.JobStatus) bool { return j.Size >= 2 && j.Adaptive.Batch >= 2*j.Adaptive.Initial })
	must.Eq(t, 12, first.Adaptive.Initial)
	must.Eq(t, adaptiveSteps, first.Total)

	b, job := w.training(t, train.Torch, "b", 1, "--batch=12", "--step-time=0.3")
	job.TaskGroups[0].Scaling.Policy = group.Scaling.Policy
	must.NoError(t, w.RegisterJob(t.Context(), job))
	waitFor(t, 5*time.Minute, "steps of b", func() bool {
		j := d.statusOf("b")
		return j != nil && j.Size > 0 && j.Step > 0
	})
	must.Nil(t, d.statusOf("b").Adaptive)
	shared := d.adapts(t, "a", func(j *koloapi.JobStatus) bool { return j.Size < 4 })
	must.Greater(t, first.Step, shared.Step)
	out, err := d.kolo("job", "a")
	must.NoError(t, err, must.Sprint(out))
	must.StrContains(t, out, "samples (initially 12) in ")

	// What the autoscaler knows of the progress is what the script counted a moment earlier.
	before := a.adaptive(t)
	known := d.job(t, "a").Job
	after := a.adaptive(t)
	must.Between(t, before[max(0, len(before)-40)].Progress, known.Step, after[len(after)-1].Progress)
	must.Eq(t, adaptiveSteps, known.Total)

	own, err := os.ReadFile(d.config)
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(d.config, []byte(strings.Replace(string(own), "cpu_slot", "adapt_batch = false\n  cpu_slot", 1)), 0o600))
	must.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.adapts(t, "a", func(j *koloapi.JobStatus) bool { return j.Adaptive.Kept && j.Adaptive.Batch < 2*j.Adaptive.Initial })

	b.finish(t)
	must.NoError(t, w.WaitStatus(bounded(t, 5*time.Minute), "b", "dead"))
	d.adapts(t, "a", func(j *koloapi.JobStatus) bool { return j.Size > shared.Size })
	a.finish(t)
	must.NoError(t, w.WaitStatus(bounded(t, 5*time.Minute), "a", "dead"))
	checkAdaptive(t, a.adaptive(t))
}

// useScript makes a task train with another script than train.Torch's.
func useScript(t *testing.T, config map[string]any, script string) {
	t.Helper()
	changed := false
	for key, value := range config {
		if list, ok := value.([]any); ok {
			for i := range list {
				if text, _ := list[i].(string); strings.HasSuffix(text, "/torch_train.py") {
					list[i], changed = script, true
				}
			}
		}
		if text, _ := value.(string); strings.HasSuffix(text, "/torch_train.py") {
			config[key], changed = script, true
		}
	}
	must.True(t, changed, must.Sprint(config))
}

// adapts waits until the status of a job that adapts its batch is as wanted.
func (d *daemon) adapts(t *testing.T, name string, wanted func(*koloapi.JobStatus) bool) (last koloapi.JobStatus) {
	t.Helper()
	defer func() {
		t.Logf("%s: ring of %d, step %.0f of %.0f, batch %+v, step times %v", name, last.Size, last.Step, last.Total, last.Adaptive, last.StepTimes)
	}()
	waitFor(t, 5*time.Minute, "the wanted size and batch of "+name, func() bool {
		j := d.statusOf(name)
		if j == nil {
			return false
		}
		last = *j
		return last.Adaptive != nil && wanted(&last)
	})
	return last
}

// statusOf returns the status of a job, or nil if it is not known.
func (d *daemon) statusOf(name string) *koloapi.JobStatus {
	s, err := d.status()
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(s.Jobs, func(j koloapi.JobStatus) bool { return j.ID == name })
	if i < 0 {
		return nil
	}
	return &s.Jobs[i]
}

// adaptive returns the steps of a training of testdata/adaptive.py, those of rank 0 with the
// samples of all ranks.
func (tr training) adaptive(t *testing.T) []adaptiveStep {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tr.dir, "records", "*.jsonl"))
	must.NoError(t, err)
	of := map[int]*adaptiveStep{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			var s adaptiveStep
			if json.Unmarshal([]byte(line), &s) != nil || s.Kind != "step" {
				continue // of the end, or still being written
			}
			if of[s.Step] == nil {
				of[s.Step] = &s
				continue
			}
			must.Eq(t, of[s.Step].Progress, s.Progress)
			of[s.Step].Indices = append(of[s.Step].Indices, s.Indices...)
		}
	}
	var steps []adaptiveStep
	for _, s := range of {
		steps = append(steps, *s)
	}
	slices.SortFunc(steps, func(x, y adaptiveStep) int { return x.Step - y.Step })
	must.SliceNotEmpty(t, steps)
	return steps
}

// checkAdaptive checks the steps of a whole training.
func checkAdaptive(t *testing.T, steps []adaptiveStep) {
	t.Helper()
	var sizes, batches []int
	used, samples, rings, epochs := map[int]bool{}, 0, 1, 0
	for i, s := range steps {
		must.Eq(t, i+1, s.Step)
		if i > 0 {
			must.Greater(t, steps[i-1].Progress, s.Progress)
		}
		if n := len(sizes); n == 0 || sizes[n-1] != s.Size {
			sizes, rings = append(sizes, s.Size), rings+1
		}
		if n := len(batches); n == 0 || batches[n-1] != s.Total {
			batches = append(batches, s.Total)
		}
		for _, index := range s.Indices {
			used[index] = true
		}
		samples += len(s.Indices)
		if i+1 == len(steps) || steps[i+1].Epoch != s.Epoch {
			must.Eq(t, epochSamples, len(used), must.Sprintf("samples in epoch %d", s.Epoch))
			must.Between(t, epochSamples, samples, epochSamples+3*rings) // the last step of a ring is filled up
			used, samples, rings, epochs = map[int]bool{}, 0, 1, epochs+1
		}
	}
	t.Logf("%d epochs, %d steps worth %.0f, rings of %v, batches of %v", epochs, len(steps), steps[len(steps)-1].Progress, sizes, batches)
	must.Greater(t, 2, len(sizes))
	must.Greater(t, 2, len(batches))
}
