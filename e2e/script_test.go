// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// giveUp makes a job fail for good instead of being tried again and again.
func giveUp(job *api.Job) {
	group := job.TaskGroups[0]
	group.RestartPolicy.Attempts = ptr(0)
	group.ReschedulePolicy.Unlimited = ptr(false)
	group.ReschedulePolicy.Attempts = ptr(0)
}

// Scripts that go wrong lead to a clear task event and log each, and to an end.
func TestBadScripts(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	c := startCluster(t, cluster.Options{Clients: 2})
	quick := map[string]any{"slot_restarts": 1}

	t.Run("fails at import", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2, edit: giveUp, config: quick, args: []string{"--fault=import"}})
		must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
		tr.waitLog(ctx, "ImportError", "--fault=import asks for a failing import")
		tr.waitEvent(ctx, "exit", "1")
		must.Eq(t, "failed", clientStatus(t, tr))
	})

	t.Run("exits 3", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2, edit: giveUp, config: quick,
			args: []string{"--fault=exit", "--fault-step=5", "--exit-code=3"}})
		must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
		tr.waitLog(ctx, "fault: exit at step 5")
		tr.waitEvent(ctx, "exit", "3")
		must.Eq(t, "failed", clientStatus(t, tr))
	})

	// Horovod goes on answering in a process that hangs, and its own stall check
	// reports nothing with Gloo in 0.28.1. That steps stop is what Kolo sees.
	t.Run("hangs in a collective", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2,
			config: map[string]any{"np": 2, "stall_timeout": "10s"},
			args:   []string{"--fault=hang", "--fault-step=20", "--fault-rank=1", "--fault-once=" + t.TempDir() + "/hung"}})
		tr.waitLog(ctx, "fault: hang at step 20 on rank 1")
		tr.waitEvent(ctx, "has made no step", "stall_timeout")
		tr.waitLog(ctx, "has made no step")
		// The others go on without it, and a new process takes its place.
		tr.waitStarts(ctx, 3)
		tr.waitSize(ctx, 2)
		must.NoError(t, tr.record().CheckRollbacks(1))
		must.Len(t, 1, tr.record().PIDs(0))
	})

	t.Run("is stopped", func(t *testing.T) {
		checkStopped(ctx, t, startTraining(ctx, t, c, trainingOptions{count: 2,
			config: map[string]any{"np": 2, "stall_timeout": "auto"}, args: []string{"--audit=1"}}), 2)
	})

	t.Run("does not use hvd.elastic.run", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 1, args: []string{"--fault=not-elastic"}})
		tr.waitSize(ctx, 1)
		// It cannot grow. It trains on, and the newcomer waits and reports why.
		tr.scale(ctx, 2)
		tr.waitEvent(ctx, "hvd.elastic.run")
		tr.waitProgress(ctx, 10)
		must.Eq(t, []int{1}, tr.record().Sizes())
		must.NoError(t, tr.record().CheckConsecutive())
	})

	t.Run("raises once and is restarted in place", func(t *testing.T) {
		tr := startTraining(ctx, t, c, trainingOptions{count: 2, config: map[string]any{"np": 2},
			args: []string{"--fault=raise", "--fault-step=20", "--fault-rank=1", "--fault-once=" + t.TempDir() + "/raised"}})
		tr.waitLog(ctx, "RuntimeError", "--fault=raise asks for an exception")
		tr.waitStarts(ctx, 3)
		tr.waitSize(ctx, 2)
		must.NoError(t, tr.record().CheckRollbacks(1))
		must.Len(t, 1, tr.record().PIDs(0))
	})

	t.Run("starts again from its checkpoint", func(t *testing.T) {
		dir := t.TempDir()
		tr := startTraining(ctx, t, c, trainingOptions{count: 1,
			config: map[string]any{"on_ring_lost": "restart"},
			args:   []string{"--checkpoint=" + dir + "/checkpoint", "--fault=kill", "--fault-step=150", "--fault-once=" + dir + "/killed"}})
		tr.waitLog(ctx, "starting from the checkpoint of step 100")
		tr.waitProgress(ctx, 60)
		pids := tr.record().PIDs(0)
		must.Len(t, 2, pids)
		second := tr.record().Where("step", func(e train.Event) bool { return e.PID == pids[1] })
		must.Eq(t, 101, second[0].Step)
	})
}

// clientStatus returns the client status of the job's first allocation.
func clientStatus(t *testing.T, tr *training) string {
	t.Helper()
	allocs, err := tr.c.Allocs(t.Context(), tr.id)
	must.NoError(t, err)
	must.SliceNotEmpty(t, allocs)
	return allocs[0].ClientStatus
}

// Configuration that cannot work leads to a task event that names the field and the remedy,
// and nothing hangs.
func TestBadConfig(t *testing.T) {
	t.Parallel() // it waits most of the time
	ctx := testContext(t, 5*time.Minute)
	c := startCluster(t, cluster.Options{Clients: 1})
	task := func(job *api.Job) *api.Task { return job.TaskGroups[0].Tasks[0] }
	secret := filepath.Join(t.TempDir(), "train.py")
	must.NoError(t, os.WriteFile(secret, nil, 0o600))
	node, _, err := c.API.Nodes().Info(c.Nodes[0].ID, nil)
	must.NoError(t, err)
	held := netip.MustParseAddrPort(node.HTTPAddr).Port()
	cases := map[string]struct {
		config map[string]any
		vars   cluster.Vars
		edit   func(*api.Job)
		event  []string
	}{
		"min_np above max_np": {
			config: map[string]any{"min_np": 3, "max_np": 2},
			event:  []string{"min_np = 3", "max_np = 2"},
		},
		"no slots": {
			config: map[string]any{"slots": 0},
			event:  []string{"slots = 0", "at least 1"},
		},
		"a field that does not exist": {
			config: map[string]any{"slotz": 2},
			event:  []string{"slotz"},
		},
		"no service": {
			config: map[string]any{"service": nil},
			event:  []string{"service", `provider = "nomad"`},
		},
		"no port": {
			edit: func(job *api.Job) {
				job.TaskGroups[0].Networks = nil
				job.TaskGroups[0].Services[0].PortLabel = ""
			},
			event: []string{"port", `network { port "kolo" {} }`},
		},
		"no identity": {
			edit: func(job *api.Job) {
				task(job).Identity = nil
				task(job).Identities = nil
			},
			event: []string{"identity", "file = true"},
		},
		"a script that is not there": {
			vars:  cluster.Vars{"script": "/nowhere/train.py"},
			event: []string{"/nowhere/train.py", "does not exist"},
		},
		"a script that the task's user may not read": {
			vars:  cluster.Vars{"script": secret},
			edit:  func(job *api.Job) { task(job).User = "nobody" },
			event: []string{secret, "permission denied", `user "nobody"`},
		},
		"a port that another process holds": {
			// The Nomad client's own, of which its scheduler knows nothing.
			edit: func(job *api.Job) {
				job.TaskGroups[0].Networks[0].DynamicPorts = nil
				job.TaskGroups[0].Networks[0].ReservedPorts = []api.Port{{Label: "kolo", Value: int(held)}}
			},
			event: []string{"service port", "address already in use", "static"},
		},
		"a command that is not there": {
			vars:  cluster.Vars{"python": "python-for-nobody"},
			event: []string{"python-for-nobody", "not found"},
		},
		"a network interface that is not there": {
			config: map[string]any{"interface": "eth77"},
			event:  []string{"eth77", "no such network interface"},
		},
		"a topology by what no client says of itself": {
			config: map[string]any{"topology": "${meta.block}/${meta.rack}"},
			event:  []string{"Unsupported attribute"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tr := startTraining(ctx, t, c, trainingOptions{config: tc.config, vars: tc.vars, edit: func(job *api.Job) {
				giveUp(job)
				if tc.edit != nil {
					tc.edit(job)
				}
			}})
			tr.waitEvent(ctx, tc.event...)
			must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
			must.SliceEmpty(t, tr.record())
		})
	}
}

// A client whose Horovod can't train elastically reports that, and accepts no task.
// Building a Horovod without Gloo takes MPI and minutes, so this one only reports to be
// one.
func TestHorovodWithoutGloo(t *testing.T) {
	t.Parallel() // it waits most of the time
	ctx := testContext(t, 5*time.Minute)
	dir := t.TempDir()
	bindings := filepath.Join(dir, "horovod", "torch")
	must.NoError(t, os.MkdirAll(bindings, 0o755))
	for path, text := range map[string]string{
		filepath.Join(dir, "horovod", "__init__.py"): "__version__ = '0.28.1'\n",
		filepath.Join(bindings, "mpi_lib_v2.so"):     "",
		filepath.Join(bindings, "__init__.py"):       "gloo_built = lambda: False\nnccl_built = lambda: 0\nmpi_built = lambda: True\n",
	} {
		must.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	without := filepath.Join(dir, "python")
	// A Python with its own packages: isolated mode (-I), in which it is asked, leaves
	// out what a variable adds.
	must.NoError(t, os.WriteFile(without, fmt.Appendf(nil, "#!/bin/sh\nshift\nPYTHONPATH=%s exec %s \"$@\"\n", dir, python(t)), 0o755))
	c := startCluster(t, cluster.Options{Clients: 1, Plugins: map[string]string{
		filepath.Join(root(t), "bin", "nomad-driver-horovod"): fmt.Sprintf("allow_isolation_none = true\npython = %q\n", without),
	}})

	must.NoError(t, cluster.Until(ctx, "the client to say what is wrong", func(ctx context.Context) error {
		node, _, err := c.API.Nodes().Info(c.Nodes[0].ID, new(api.QueryOptions).WithContext(ctx))
		if err != nil {
			return err
		}
		d := node.Drivers["horovod"]
		if d == nil || d.Detected || !strings.Contains(d.HealthDescription, "built without Gloo") {
			return fmt.Errorf("the driver is %+v", d)
		}
		must.StrContains(t, d.HealthDescription, "rebuild it with HOROVOD_WITH_GLOO=1")
		return nil
	}))
	tr := startTraining(ctx, t, c, trainingOptions{})
	must.NoError(t, cluster.Until(ctx, "the scheduler to say why the job waits", func(ctx context.Context) error {
		evals, _, err := c.API.Jobs().Evaluations(tr.id, new(api.QueryOptions).WithContext(ctx))
		if err != nil {
			return err
		}
		for _, e := range evals {
			if m := e.FailedTGAllocs["workers"]; m != nil && m.ConstraintFiltered["missing drivers"] > 0 {
				return nil
			}
		}
		return fmt.Errorf("no evaluation of %d says that drivers are missing", len(evals))
	}))
	must.SliceEmpty(t, tr.record())
}
