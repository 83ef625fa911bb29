// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

func TestPodman(t *testing.T) { testEngine(t, podman) }

func TestDocker(t *testing.T) { testEngine(t, docker) }

// testEngine trains under an engine: every step is in the record, whatever happens to
// containers, slots and clients.
func testEngine(t *testing.T, e engine) {
	ctx := testContext(t, 12*time.Minute)
	w := e.startCluster(ctx, t)
	for _, c := range []struct {
		name string
		test func(context.Context, *testing.T, *world)
	}{
		{"planned", testPlanned},
		{"deaths", testDeaths},
		{"stopped", testStopped},
		{"slow pull", testSlowPull},
		{"Horovod", testHorovod},
		{"refused", testRefused},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(ctx, t, w) })
	}
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

// Training survives the death of a slot, a container or a client, and resumes where it was.
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

	// A client dies: its container goes on, and the client finds it again.
	started, worker := len(tr.record().Where("start", nil)), tr.workerOf(alloc.ID).PID
	must.NoError(t, w.Nodes[1].Kill())
	must.NoError(t, w.Nodes[1].Start(ctx))
	tr.waitSize(ctx, 2)
	must.Eq(t, worker, tr.workerOf(alloc.ID).PID)
	must.Len(t, started, tr.record().Where("start", nil))
	tr.scale(ctx, 1)
	tr.waitSize(ctx, 1)
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

// The engine stops the leader's container, as at the end of a daemon, with a signal of
// the image's choice: no step is lost, and Nomad starts it again. Podman's driver looks
// once a second, and takes 0 for the exit code of a container that podman is stopping, so
// that Nomad replaces nothing: the other worker trains on.
func testStopped(ctx context.Context, t *testing.T, w *world) {
	tr := w.start(ctx, t, 2, func(job *api.Job) {
		config := job.TaskGroups[0].Tasks[0].Config
		config["image"] = w.registry.image(t, "stopsignal", map[string]any{"StopSignal": "SIGQUIT"}, nil)
		delete(config, "shm_size")
	})
	tr.waitSize(ctx, 2)
	tr.waitLog(ctx, "/dev/shm: has 6") // 62 to 64 MB
	leader := tr.leader(ctx)
	n := w.Nodes[0]
	if tr.allocOn(ctx, n).ID != leader {
		n = w.Nodes[1]
		must.Eq(t, leader, tr.allocOn(ctx, n).ID)
	}
	started := len(tr.record().Where("start", nil))
	must.NoError(t, w.engine.run(ctx, n, "stop", "--time=60", "train-"+leader))
	switch code := tr.exitCode(ctx, leader); {
	case w.engine.driver == podman.driver && code == "Exit Code: 0":
		t.Log("podman's driver has misread the exit code")
		tr.waitSize(ctx, 1)
	default:
		must.StrContains(t, code, "Exit Code: 143")
		tr.waitStarts(ctx, started+1)
		tr.waitSize(ctx, 2)
	}
	tr.finish(ctx)
	must.NoError(t, tr.record().CheckConsecutive())
	must.NoError(t, tr.record().CheckSamples(samples))
}

// While a node pulls the image, the others train.
func testSlowPull(ctx context.Context, t *testing.T, w *world) {
	release := w.registry.hold(w.Nodes[1].IP)
	defer release()
	tr := w.start(ctx, t, 2, func(job *api.Job) {
		job.TaskGroups[0].Tasks[0].Config["image"] = w.registry.image(t, "slow", nil, nil)
	})
	tr.waitSize(ctx, 1)
	release()
	tr.waitSize(ctx, 2)
	tr.finish(ctx)
	must.Eq(t, []int{1, 2}, tr.record().Sizes())
	must.NoError(t, tr.record().CheckConsecutive())
}

// Horovod's processes wait for one another when one dies. Kolo-worker cuts their
// connections, without a capability and with the engine's own seccomp profile.
func testHorovod(ctx context.Context, t *testing.T, w *world) {
	packages, err := filepath.Glob(filepath.Join(w.torch, "venv", "lib", "python3*", "site-packages"))
	must.NoError(t, err)
	if len(packages) == 0 {
		t.Skip("needs bin/torch/venv: make torch-horovod")
	}
	inside, err := filepath.Rel(filepath.Join(w.torch, "venv"), packages[0])
	must.NoError(t, err)
	tr := w.start(ctx, t, 3, func(job *api.Job) {
		task := job.TaskGroups[0].Tasks[0]
		task.Env = map[string]string{"PYTHONPATH": filepath.Join("/horovod", inside), "KOLO_LOG_LEVEL": "debug"}
		var args []any
		for _, arg := range task.Config["args"].([]any) {
			switch {
			case arg == "--framework=torch":
				arg = "--framework=horovod"
			case arg == "--torch.backend=gloo":
				arg = "--horovod.cycle_time_ms=10"
			case arg == filepath.Join(root(t), train.Torch.Script):
				arg = filepath.Join(root(t), train.Horovod.Script)
			}
			args = append(args, arg)
		}
		task.Config["args"] = args
	})
	tr.waitSize(ctx, 3)
	running, err := w.Running(ctx, tr.id)
	must.NoError(t, err)
	started := len(tr.record().Where("start", nil))
	slots := cluster.Slots(running[2].ID)
	must.Len(t, 1, slots)
	must.NoError(t, slots[0].Kill())
	tr.waitStarts(ctx, started+1)
	tr.waitSize(ctx, 3)
	tr.waitLog(ctx, "ring 2: ")
	for _, a := range running {
		log, err := w.log(a.ID, "train")
		must.NoError(t, err)
		must.StrNotContains(t, log, "may not cut")
	}
	tr.finish(ctx)
	must.NoError(t, tr.record().CheckRollbacks(1))
}

// A task that can't train ends at once, and its log says what to do about it. Nomad's
// own report of the allocation has the exit code alone.
func testRefused(ctx context.Context, t *testing.T, w *world) {
	for name, c := range map[string]struct {
		edit func(*api.Task)
		says string
	}{
		"a network of its own": {
			func(task *api.Task) { task.Config["network_mode"] = "none"; delete(task.Config, "hostname") },
			"kolo-worker: network_mode: the task is not in the host's network, as none of its interfaces has 10.213.",
		},
		"a user by name": {
			func(task *api.Task) {
				task.User = "nobody"
				task.Config["image"] = w.registry.image(t, "names", nil, map[string]string{"etc/passwd": "root:x:0:0::/:/bin/sh\nnobody:x:1234:1234::/:/bin/sh\n"})
			},
			`where the task's user is a name, which may have one number on the client and another in the image, set its number: user = "65534"`,
		},
		"a bad value": {
			func(task *api.Task) {
				task.Config["args"] = append([]any{"--slots=0"}, task.Config["args"].([]any)...)
			},
			"kolo-worker: slots = 0: must be at least 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := w.start(ctx, t, 1, func(job *api.Job) {
				group := job.TaskGroups[0]
				// docker's driver can miss the output of a container that ends at once, so
				// it is started a few times.
				group.RestartPolicy = &api.RestartPolicy{Attempts: ptr(4), Interval: ptr(10 * time.Minute), Delay: ptr(time.Second), Mode: ptr("fail")}
				group.ReschedulePolicy.Unlimited, group.ReschedulePolicy.Attempts = ptr(false), ptr(0)
				c.edit(group.Tasks[0])
			})
			tr.waitEvent(ctx, "Exit Code: 1")
			tr.waitLog(ctx, c.says)
		})
	}
}
