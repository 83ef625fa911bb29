// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

const (
	// samples is the size of an epoch: 100 steps of one rank.
	samples = 1200
	// stepTime is short, but long against a step's own work.
	stepTime = 50 * time.Millisecond
)

// A training is a job that runs train.py.
type training struct {
	t   testing.TB
	c   *cluster.Cluster
	job *api.Job
	id  string
	// dir holds the records and the files that steer the script.
	dir string
}

// trainingOptions change the job of jobspecs/horovod.nomad.hcl.
type trainingOptions struct {
	spec  string // another of jobspecs/
	id    string // made of the test's name if empty
	count int    // 1 if 0
	args  []string
	// config is merged into the task's, nil values removed.
	config map[string]any
	// vars are merged into the job's, nil values removed.
	vars cluster.Vars
	// edit may change anything else.
	edit func(*api.Job)
}

// startTraining registers a training job that goes on until it is finished or
// stopped, at the latest by the end of the test.
func startTraining(ctx context.Context, t testing.TB, c *cluster.Cluster, o trainingOptions) *training {
	t.Helper()
	if o.spec == "" {
		o.spec = "horovod"
	}
	name := cmp.Or(o.id, strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
	tr := &training{t: t, c: c, dir: filepath.Join(c.Dir, "training", name)}
	must.NoError(t, os.MkdirAll(tr.dir, 0o777))

	text, err := os.ReadFile(filepath.Join(root(t), "jobspecs", o.spec+".nomad.hcl"))
	must.NoError(t, err)
	vars := cluster.Vars{
		"count":     max(o.count, 1),
		"python":    python(t),
		"script":    filepath.Join(root(t), "e2e", "train", "train.py"),
		"isolation": "none",
		"args": append([]string{
			"--epochs=100000",
			"--samples=" + strconv.Itoa(samples),
			"--step-time=" + strconv.FormatFloat(stepTime.Seconds(), 'f', -1, 64),
			"--records=" + filepath.Join(tr.dir, "records"),
			"--stop-file=" + tr.file("stop"),
			"--import-time-file=" + tr.file("import-time"),
		}, o.args...),
	}
	for name, value := range o.vars {
		vars[name] = value
		if value == nil {
			delete(vars, name)
		}
	}
	tr.job, err = c.Parse(string(text), vars)
	must.NoError(t, err)
	tr.job.ID, tr.job.Name, tr.id = &name, &name, name
	task := tr.task()
	for key, value := range o.config {
		task.Config[key] = value
		if value == nil {
			delete(task.Config, key)
		}
	}
	// One or two seconds instead of many: these are a matter of taste for
	// users, and of minutes for tests.
	group := tr.job.TaskGroups[0]
	group.RestartPolicy.Delay = ptr(time.Second)
	group.ReschedulePolicy.Delay = ptr(5 * time.Second)
	group.ReschedulePolicy.DelayFunction = ptr("constant")
	if o.edit != nil {
		o.edit(tr.job)
	}
	must.NoError(t, c.RegisterJob(ctx, tr.job))
	t.Cleanup(tr.cleanUp)
	return tr
}

// cleanUp logs what happened if the test failed, and purges the job.
func (tr *training) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.t.Context()), time.Minute)
	defer cancel()
	if tr.t.Failed() {
		tr.tell(ctx)
	}
	must.NoError(tr.t, tr.c.StopJob(ctx, tr.id, true))
	must.NoError(tr.t, cluster.Until(ctx, "all processes of "+tr.id+" to end", func(context.Context) error {
		if left := tr.processes(); len(left) > 0 {
			return fmt.Errorf("%d are left, such as %d: %s", len(left), left[0].PID, strings.Join(left[0].Args, " "))
		}
		return nil
	}))
}

func (tr *training) tell(ctx context.Context) {
	if record, err := train.Read(filepath.Join(tr.dir, "records")); err == nil {
		tr.t.Logf("%s: sizes %v, last %+v", tr.id, record.Sizes(), record.Last())
	}
	allocs, err := tr.c.Allocs(ctx, tr.id)
	if err != nil {
		tr.t.Logf("%s: %v", tr.id, err)
	}
	for _, a := range allocs {
		tr.t.Logf("%s on %s: %s\n  %s", a.Name, a.NodeName, a.ClientStatus, strings.Join(cluster.Events(a), "\n  "))
	}
}

func (tr *training) task() *api.Task { return tr.job.TaskGroups[0].Tasks[0] }

// file returns the path of a file that steers the script.
func (tr *training) file(name string) string { return filepath.Join(tr.dir, name) }

// write makes such a file.
func (tr *training) write(name, content string) {
	must.NoError(tr.t, os.WriteFile(tr.file(name), []byte(content), 0o644))
}

// record returns what the script has recorded so far.
func (tr *training) record() train.Record {
	tr.t.Helper()
	record, err := train.Read(filepath.Join(tr.dir, "records"))
	must.NoError(tr.t, err)
	return record
}

func (tr *training) scale(ctx context.Context, n int) {
	tr.t.Helper()
	must.NoError(tr.t, tr.c.Scale(ctx, tr.id, "workers", n))
}

// running waits until n allocations run.
func (tr *training) running(ctx context.Context, n int) []*api.AllocationListStub {
	tr.t.Helper()
	allocs, err := tr.c.WaitRunning(ctx, tr.id, n)
	must.NoError(tr.t, err)
	return allocs
}

// in returns the training in a subtest, which fails by itself.
func (tr *training) in(t *testing.T) *training {
	in := *tr
	in.t = t
	return &in
}

// waitSize waits until a ring of n has done ten steps in a row, and no ring
// has followed it.
func (tr *training) waitSize(ctx context.Context, n int) {
	tr.t.Helper()
	from := tr.record().Last().Time()
	tr.wait(ctx, fmt.Sprintf("a ring of %d", n), func(r train.Record) error {
		if err := r.CheckSize(n, from); err != nil {
			return fmt.Errorf("%w; sizes so far: %v; %s", err, r.Sizes(), tr.status(ctx))
		}
		return nil
	})
}

// waitProgress waits for steps more steps from now on.
func (tr *training) waitProgress(ctx context.Context, steps int) {
	tr.t.Helper()
	from := tr.record().Last().T
	tr.wait(ctx, fmt.Sprintf("%d more steps", steps), func(r train.Record) error {
		done := r.Where("step", func(e train.Event) bool { return e.Rank == 0 && e.T > from })
		if len(done) < steps {
			return fmt.Errorf("%d done; %s", len(done), tr.status(ctx))
		}
		return nil
	})
}

func (tr *training) wait(ctx context.Context, what string, check func(train.Record) error) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, what, func(context.Context) error {
		record, err := train.Read(filepath.Join(tr.dir, "records"))
		if err != nil {
			return err
		}
		return check(record)
	}))
}

// status returns one line on the allocations.
func (tr *training) status(ctx context.Context) string {
	allocs, err := tr.c.Allocs(ctx, tr.id)
	if err != nil {
		return err.Error()
	}
	var parts []string
	for _, a := range allocs {
		parts = append(parts, fmt.Sprintf("%s %s", a.Name[strings.LastIndexByte(a.Name, '['):], a.ClientStatus))
	}
	return strings.Join(parts, ", ")
}

// finish lets the script end with its epoch, and waits for the job to be
// complete.
func (tr *training) finish(ctx context.Context) {
	tr.t.Helper()
	tr.write("stop", "")
	must.NoError(tr.t, tr.c.WaitStatus(ctx, tr.id, "dead"))
	must.SliceNotEmpty(tr.t, tr.record().Where("done", nil), must.Sprint("the job is dead, but no rank was done"))
}

// checkPlanned fails the test unless nothing was lost or repeated, and one
// process was rank 0 throughout.
func (tr *training) checkPlanned() {
	tr.t.Helper()
	r := tr.record()
	must.NoError(tr.t, r.CheckConsecutive())
	must.NoError(tr.t, r.CheckSamples(samples))
	must.Len(tr.t, 1, r.PIDs(0), must.Sprint("processes that were rank 0"))
}

// growOnce lets a training of one rank grow, and finishes it.
func (tr *training) growOnce(ctx context.Context) {
	tr.t.Helper()
	tr.waitSize(ctx, 1)
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)
	tr.finish(ctx)
	tr.checkPlanned()
}

// processes returns the processes of all the job's allocations.
func (tr *training) processes() []cluster.Process {
	return cluster.Processes(func(p cluster.Process) bool {
		return p.Env["NOMAD_JOB_ID"] == tr.id && strings.Contains(p.Env["NOMAD_ALLOC_DIR"], tr.c.Dir)
	})
}

// slotOf returns the process that is rank n of the latest ring.
func (tr *training) slotOf(rank int) cluster.Process {
	tr.t.Helper()
	r := tr.record()
	size := r.Last().Size
	steps := r.Where("step", func(e train.Event) bool { return e.Rank == rank && e.Size == size })
	must.SliceNotEmpty(tr.t, steps)
	pid := steps[len(steps)-1].PID
	found := cluster.Processes(func(p cluster.Process) bool { return p.PID == pid })
	must.Len(tr.t, 1, found, must.Sprintf("process %d, rank %d", pid, rank))
	return found[0]
}

// allocOf returns the allocation in which the latest ring's rank n trains.
func (tr *training) allocOf(ctx context.Context, rank int) *api.AllocationListStub {
	tr.t.Helper()
	id := tr.slotOf(rank).Env["NOMAD_ALLOC_ID"]
	allocs, err := tr.c.Allocs(ctx, tr.id)
	must.NoError(tr.t, err)
	for _, a := range allocs {
		if a.ID == id {
			return a
		}
	}
	tr.t.Fatalf("no allocation %s", id)
	return nil
}

// waitEvent waits until one of the job's task events contains all of the words.
func (tr *training) waitEvent(ctx context.Context, words ...string) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, fmt.Sprintf("a task event with %q", words), func(ctx context.Context) error {
		allocs, err := tr.c.Allocs(ctx, tr.id)
		if err != nil {
			return err
		}
		var all []string
		for _, a := range allocs {
			for _, e := range cluster.Events(a) {
				if containsAll(e, words) {
					return nil
				}
				all = append(all, e)
			}
		}
		return fmt.Errorf("there are: %s", strings.Join(all, " | "))
	}))
}

// waitLog waits until a task's stdout or stderr contains all of the words.
func (tr *training) waitLog(ctx context.Context, words ...string) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, fmt.Sprintf("a log with %q", words), func(ctx context.Context) error {
		allocs, err := tr.c.Allocs(ctx, tr.id)
		if err != nil {
			return err
		}
		for _, a := range allocs {
			for _, stream := range []string{"stdout", "stderr"} {
				text, err := tr.c.Logs(a.ID, tr.task().Name, stream)
				if err != nil {
					return err
				}
				if containsAll(text, words) {
					return nil
				}
			}
		}
		return fmt.Errorf("not in the logs of %d allocations", len(allocs))
	}))
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// errNotYet is for waits without more to report.
var errNotYet = errors.New("not yet")

// pause lets time pass between two requests whose distance is the point of a
// test. Nothing is assumed to have happened after it.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

func ptr[T any](v T) *T { return &v }
