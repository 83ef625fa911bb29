// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// samples is the size of an epoch: 100 steps of one rank.
const samples = 1200

// A training is a job that runs a training script in containers.
type training struct {
	t testing.TB
	w *world
	// job is as it was registered, id its name.
	job *api.Job
	id  string
	// dir holds the records and the files that steer the script. To the job it is
	// inside.
	dir, inside string
	stop        sync.Once
}

// errNotYet is for waits without more to report.
var errNotYet = errors.New("not yet")

// start registers the job of jobspecs/container.nomad.hcl with the test's script,
// which trains until it is finished or the test ends.
func (w *world) start(ctx context.Context, t testing.TB, count int, edit func(*api.Job)) *training {
	t.Helper()
	tr := w.training(t, strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
	text, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "container.nomad.hcl"))
	must.NoError(t, err)
	tr.job, err = w.Parse(string(text), cluster.Vars{
		"count": count, "image": w.image, "python": "/usr/bin/python3", "script": filepath.Join(root(t), train.Torch.Script),
		"args": tr.arguments(),
	})
	must.NoError(t, err)
	tr.job.ID, tr.job.Name = &tr.id, &tr.id
	tr.prepare()
	if edit != nil {
		edit(tr.job)
	}
	w.allow(t, tr.id)
	must.NoError(t, w.RegisterJob(ctx, tr.job))
	t.Cleanup(func() { tr.stop.Do(tr.cleanUp) })
	return tr
}

// training makes what a job's script reads and writes.
func (w *world) training(t testing.TB, id string) *training {
	t.Helper()
	tr := &training{t: t, w: w, id: id, dir: filepath.Join(w.Dir, "training", id), inside: filepath.Join("/training", id)}
	must.NoError(t, os.MkdirAll(tr.dir, 0o777))
	must.NoError(t, os.Chmod(tr.dir, 0o777)) // for the containers' user
	return tr
}

// arguments returns the script's arguments.
func (tr *training) arguments() []any {
	return []any{
		"--epochs=100000", fmt.Sprintf("--samples=%d", samples), "--step-time=0.05",
		"--records=" + filepath.Join(tr.inside, "records"), "--stop-file=" + filepath.Join(tr.inside, "stop"),
	}
}

// prepare adds to the job what the test's image lacks and what the engine's driver writes
// differently, and replaces minutes in Nomad's waits by seconds.
func (tr *training) prepare() {
	group := tr.job.TaskGroups[0]
	group.RestartPolicy.Delay, group.ReschedulePolicy.Delay, group.ReschedulePolicy.DelayFunction = ptr(time.Second), ptr(5*time.Second), ptr("constant")
	tr.job.Spreads = []*api.Spread{api.NewSpread("${node.unique.id}", 100, nil)}
	task := tr.task()
	task.Driver = tr.w.engine.driver
	task.Config["cap_drop"] = []any{"all"}
	for name, value := range tr.w.engine.config {
		task.Config[name] = value
		if value == nil {
			delete(task.Config, name)
		}
	}
	group.Volumes, task.VolumeMounts = map[string]*api.VolumeRequest{}, nil
	for name, v := range volumes(tr.w.torch, root(tr.t)) {
		group.Volumes[name] = &api.VolumeRequest{Name: name, Type: "host", Source: name, ReadOnly: v.readOnly}
		task.VolumeMounts = append(task.VolumeMounts, &api.VolumeMount{Volume: &name, Destination: &v.mounted, ReadOnly: &v.readOnly})
	}
	task.Env = map[string]string{}
	maps.Copy(task.Env, train.Torch.Env(root(tr.t)))
}

func (tr *training) task() *api.Task { return tr.job.TaskGroups[0].Tasks[0] }

// cleanUp logs what happened if the test failed, and purges the job.
func (tr *training) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.t.Context()), time.Minute)
	defer cancel()
	if tr.t.Failed() {
		tr.explain(ctx)
	}
	must.NoError(tr.t, tr.w.StopJob(ctx, tr.id, true))
	must.NoError(tr.t, cluster.Until(ctx, "all processes of "+tr.id+" to end", func(context.Context) error {
		if left := tr.processes(); len(left) > 0 {
			return fmt.Errorf("%d are left, such as %d: %s", len(left), left[0].PID, strings.Join(left[0].Args, " "))
		}
		return nil
	}))
}

func (tr *training) explain(ctx context.Context) {
	record := tr.record()
	tr.t.Logf("%s: sizes %v, last %+v", tr.id, record.Sizes(), record.Last())
	tr.w.explain(ctx, tr.t, tr.id, "train")
}

// explain logs the state of a job's allocations.
func (w *world) explain(ctx context.Context, t testing.TB, id, task string) {
	allocs, err := w.Allocs(ctx, id)
	if err != nil {
		t.Logf("%s: %v", id, err)
	}
	for _, a := range allocs {
		t.Logf("%s on %s: %s\n  %s", a.Name, a.NodeName, a.ClientStatus, strings.Join(cluster.Events(a), "\n  "))
		text, _ := w.log(a.ID, task)
		t.Logf("%s: its log ends with\n%s", a.Name, text[max(0, len(text)-3000):])
	}
}

// processes returns the processes of the job's containers.
func (tr *training) processes() []cluster.Process {
	return cluster.Processes(func(p cluster.Process) bool { return p.Env["NOMAD_JOB_ID"] == tr.id })
}

// workerOf returns an allocation's kolo-worker.
func (tr *training) workerOf(alloc string) cluster.Process {
	tr.t.Helper()
	found := cluster.Processes(func(p cluster.Process) bool {
		return filepath.Base(p.Args[0]) == "kolo-worker" && p.Env["NOMAD_ALLOC_ID"] == alloc
	})
	must.Len(tr.t, 1, found)
	return found[0]
}

func (tr *training) record() train.Record {
	tr.t.Helper()
	record, err := train.Read(filepath.Join(tr.dir, "records"))
	must.NoError(tr.t, err)
	return record
}

func (tr *training) scale(ctx context.Context, n int) {
	tr.t.Helper()
	must.NoError(tr.t, tr.w.Scale(ctx, tr.id, "workers", n))
}

// waitSize waits until a ring of n has done ten steps in a row from now on.
func (tr *training) waitSize(ctx context.Context, n int) {
	tr.t.Helper()
	from := tr.record().Last().Time()
	tr.wait(ctx, fmt.Sprintf("a ring of %d", n), func(r train.Record) error {
		if err := r.CheckSize(n, from); err != nil {
			return fmt.Errorf("%w; sizes so far: %v", err, r.Sizes())
		}
		return nil
	})
}

// waitStarts waits until n training processes have started in all.
func (tr *training) waitStarts(ctx context.Context, n int) {
	tr.t.Helper()
	tr.wait(ctx, fmt.Sprintf("%d starts", n), func(r train.Record) error {
		if have := len(r.Where("start", nil)); have < n {
			return fmt.Errorf("%d processes have started", have)
		}
		return nil
	})
}

func (tr *training) wait(ctx context.Context, what string, check func(train.Record) error) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, what, func(ctx context.Context) error {
		record, err := train.Read(filepath.Join(tr.dir, "records"))
		if err == nil {
			err = check(record)
		}
		if err != nil {
			err = fmt.Errorf("%w; %s", err, tr.w.story(ctx, tr.id))
		}
		return err
	}))
}

// exitCode returns the exit code of an allocation's task, as Nomad reports it.
func (tr *training) exitCode(ctx context.Context, alloc string) (code string) {
	tr.t.Helper()
	tr.waitAllocs(ctx, "the task's end", func(allocs []*api.AllocationListStub) error {
		for _, a := range allocs {
			for _, e := range cluster.Events(a) {
				if end, ok := strings.CutPrefix(e, "Terminated: "); ok && a.ID == alloc {
					code = end
					return nil
				}
			}
		}
		return errNotYet
	})
	return code
}

// waitAllocs waits until a check of the job's allocations succeeds.
func (tr *training) waitAllocs(ctx context.Context, what string, check func([]*api.AllocationListStub) error) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, what, func(ctx context.Context) error {
		allocs, err := tr.w.Allocs(ctx, tr.id)
		if err != nil {
			return err
		}
		return check(allocs)
	}))
}

// story returns one line on a job's allocations.
func (w *world) story(ctx context.Context, id string) string {
	allocs, err := w.Allocs(ctx, id)
	if err != nil {
		return err.Error()
	}
	var parts []string
	for _, a := range allocs {
		events := cluster.Events(a)
		parts = append(parts, fmt.Sprintf("%s on %s is %s (%s)", a.Name[strings.LastIndexByte(a.Name, '['):], a.NodeName, a.ClientStatus, strings.Join(events[max(0, len(events)-1):], "")))
	}
	return strings.Join(parts, ", ")
}

// finish lets the script end with its epoch, and waits for the job to be complete.
func (tr *training) finish(ctx context.Context) {
	tr.t.Helper()
	must.NoError(tr.t, os.WriteFile(filepath.Join(tr.dir, "stop"), nil, 0o644))
	must.NoError(tr.t, tr.w.WaitStatus(ctx, tr.id, "dead"))
	must.SliceNotEmpty(tr.t, tr.record().Where("done", nil), must.Sprint("the job is dead, but no rank was done"))
	for _, z := range tr.record().Resizes() {
		tr.t.Logf("%d→%d: gap %s", z.From, z.To, z.Gap().Round(time.Millisecond))
	}
}

// status returns what the ring's leader knows, as any of the job's workers reports it.
func (tr *training) status(ctx context.Context) (*wire.Status, error) {
	services, _, err := tr.w.API.Services().Get("container", new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(services, func(s *api.ServiceRegistration) bool { return s.JobID == tr.id })
	if at < 0 {
		return nil, errors.New("no worker is registered")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/v1/status", services[at].Address, services[at].Port), nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	s := new(wire.Status)
	return s, json.Unmarshal(text, s)
}

// leader returns the allocation whose agent leads the ring.
func (tr *training) leader(ctx context.Context) string {
	tr.t.Helper()
	var leader string
	must.NoError(tr.t, cluster.Until(ctx, "a leader", func(ctx context.Context) error {
		s, err := tr.status(ctx)
		if err == nil && s.Leader == "" {
			err = errNotYet
		}
		if err == nil {
			leader = s.Leader
		}
		return err
	}))
	return leader
}

// allocOn returns the job's running allocation on a node.
func (tr *training) allocOn(ctx context.Context, n *cluster.Node) *api.AllocationListStub {
	tr.t.Helper()
	allocs, err := tr.w.Running(ctx, tr.id)
	must.NoError(tr.t, err)
	at := slices.IndexFunc(allocs, func(a *api.AllocationListStub) bool { return a.NodeID == n.ID })
	must.NotEq(tr.t, -1, at, must.Sprint("no allocation on ", n.Name, ": ", tr.w.story(ctx, tr.id)))
	return allocs[at]
}

// waitLog waits until what one of the job's tasks has written has a text. Podman's driver
// adds stderr to stdout.
func (tr *training) waitLog(ctx context.Context, want string) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, "the log", func(ctx context.Context) error {
		allocs, err := tr.w.Allocs(ctx, tr.id)
		if err != nil {
			return err
		}
		var all []string
		for _, a := range allocs {
			text, err := tr.w.log(a.ID, "train")
			if err != nil || strings.Contains(text, want) {
				return err
			}
			all = append(all, text)
		}
		return fmt.Errorf("there is no %q in %q; %s", want, all, tr.w.story(ctx, tr.id))
	}))
}

// log returns what an allocation's task has written, without the lines of the record.
func (w *world) log(alloc, task string) (string, error) {
	out, err := w.Logs(alloc, task, "stdout")
	if err != nil {
		return "", err
	}
	errs, err := w.Logs(alloc, task, "stderr")
	text := []string{errs}
	for line := range strings.Lines(out) {
		if !strings.Contains(line, `{"kolo": `) {
			text = append(text, line)
		}
	}
	return strings.Join(text, ""), err
}

// waitEvent waits until one of the job's task events has a text.
func (tr *training) waitEvent(ctx context.Context, want string) {
	tr.t.Helper()
	tr.waitAllocs(ctx, "a task event", func(allocs []*api.AllocationListStub) error {
		var all []string
		for _, a := range allocs {
			all = append(all, cluster.Events(a)...)
		}
		if strings.Contains(strings.Join(all, "\n"), want) {
			return nil
		}
		return fmt.Errorf("there is no %q in %q", want, all)
	})
}

func ptr[T any](v T) *T { return &v }
