// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e || gpu

package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// quick makes the plugin notice within a second what it would otherwise within
// a minute.
const quick = `
    fingerprint_period = "5s"
    health {
      interval      = "300ms"
      grace         = "1s"
      healthy_after = "1s"
      call_timeout  = "5s"
      ignored_xids  = [13, 31]
    }
`

// rig is a cluster of GPU machines.
type rig struct {
	*cluster.Cluster
	t   *testing.T
	ctx context.Context
	// hw are the machines of the clients, in their order.
	hw []*nvmltest.Machine
}

// newRig starts a cluster with one client for each machine. An empty name is a
// machine on which no NVIDIA driver is installed yet.
func newRig(t *testing.T, config string, machines ...string) *rig {
	t.Helper()
	nomad := nomadPath(t)
	plugin, err := binary()
	must.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("not within 10 minutes"))
	t.Cleanup(cancel)
	plugins := map[string]string{plugin: config}
	env := nvmltest.RelativeEnv()
	if driver, python, ok := horovod(t); ok {
		plugins[driver] = fmt.Sprintf("allow_isolation_none = true\npython = %q\n", python)
		env["PATH"] = filepath.Dir(python) + ":" + os.Getenv("PATH")
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Nomad: nomad, Clients: len(machines), Log: t.Logf, Plugins: plugins, Env: env,
		Grace: cluster.Patient, // a client that a busy machine starts again is not lost
	})
	must.NoError(t, err)
	r := &rig{Cluster: c, t: t, ctx: ctx, hw: make([]*nvmltest.Machine, len(machines))}
	c.StopAfter(t, filepath.Join("..", ".work", "device-"+t.Name()))
	for i, name := range machines {
		if name != "" {
			r.install(i, name)
		}
	}
	return r
}

// in returns the rig for a part of the test.
func (r *rig) in(t *testing.T) *rig {
	part := *r
	part.t = t
	return &part
}

// install puts GPUs and a driver into a running client.
func (r *rig) install(client int, machine string) {
	r.t.Helper()
	r.hw[client] = nvmltest.At(r.t, filepath.Join(r.Dir, r.Nodes[client].Name), machine)
}

// devices returns what the server knows of a client's devices.
func (r *rig) devices(client int) ([]*api.NodeDeviceResource, error) {
	node, err := r.Nodes[client].Info(r.ctx)
	if err != nil {
		return nil, err
	}
	return node.NodeResources.Devices, nil
}

// waitHealthy waits until a client has so many healthy devices, and its
// attributes agree.
func (r *rig) waitHealthy(client, want int) []*api.NodeDeviceResource {
	r.t.Helper()
	var devices []*api.NodeDeviceResource
	must.NoError(r.t, cluster.Until(r.ctx, fmt.Sprintf("%d healthy GPUs on c%d", want, client+1), func(context.Context) error {
		var err error
		if devices, err = r.devices(client); err != nil {
			return err
		}
		healthy, published := 0, 0
		for _, g := range devices {
			for _, d := range g.Instances {
				if d.Healthy {
					healthy++
				}
			}
			published += int(*g.Attributes["healthy"].IntVal)
		}
		if len(devices) == 0 && want > 0 || healthy != want || published != want {
			return fmt.Errorf("%d groups, %d healthy, %d by the attribute", len(devices), healthy, published)
		}
		return nil
	}))
	return devices
}

// job renders a batch job of one task that prints its environment and then runs
// a line of shell.
func job(name string, count int, devices, shell string) string {
	return fmt.Sprintf(`
job %q {
  type = "batch"
  group "g" {
    count = %d
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "env; %s"]
      }
      resources {
        cpu    = 20
        memory = 16
        %s
      }
    }
  }
}`, name, count, shell, devices)
}

// run registers a job and waits until n of its allocations run or have run.
func (r *rig) run(name string, n int, spec string) []*api.Allocation {
	r.t.Helper()
	_, err := r.Register(r.ctx, spec, nil)
	must.NoError(r.t, err)
	return r.placed(name, n)
}

// placed waits until n allocations of a job run or have run, and returns them
// in full.
func (r *rig) placed(name string, n int) []*api.Allocation {
	r.t.Helper()
	var full []*api.Allocation
	must.NoError(r.t, cluster.Until(r.ctx, fmt.Sprintf("%d allocations of %s", n, name), func(ctx context.Context) error {
		stubs, err := r.Allocs(ctx, name)
		if err != nil {
			return err
		}
		full = nil
		for _, s := range stubs {
			switch s.ClientStatus {
			case api.AllocClientStatusFailed:
				return &cluster.FatalError{Reason: fmt.Sprint(cluster.Events(s))}
			case api.AllocClientStatusRunning, api.AllocClientStatusComplete:
				a, _, err := r.API.Allocations().Info(s.ID, nil)
				if err != nil {
					return err
				}
				full = append(full, a)
			}
		}
		if len(full) != n {
			return fmt.Errorf("%d of them", len(full))
		}
		return nil
	}))
	return full
}

// pending asserts that nothing of a job is placed: its evaluation is blocked.
func (r *rig) pending(name string) {
	r.t.Helper()
	must.NoError(r.t, cluster.Until(r.ctx, name+" to be blocked", func(context.Context) error {
		evals, _, err := r.API.Jobs().Evaluations(name, nil)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(evals, func(e *api.Evaluation) bool { return e.Status == "blocked" }) {
			return errors.New("no evaluation is blocked")
		}
		return nil
	}))
	stubs, err := r.Allocs(r.ctx, name)
	must.NoError(r.t, err)
	must.SliceEmpty(r.t, stubs)
}

// gpus returns the ids that the scheduler gave to an allocation.
func gpus(a *api.Allocation) []string {
	var ids []string
	for _, task := range a.AllocatedResources.Tasks {
		for _, d := range task.Devices {
			ids = append(ids, d.DeviceIDs...)
		}
	}
	slices.Sort(ids)
	return ids
}

// environment returns the environment that the task has printed.
func (r *rig) environment(a *api.Allocation) map[string]string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	env := map[string]string{}
	must.NoError(r.t, cluster.Until(ctx, "the environment of "+a.ID, func(context.Context) error {
		text, err := r.Logs(a.ID, "t", "stdout")
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			// The horovod driver puts the slot before a line.
			line = strings.TrimPrefix(strings.TrimSpace(line), "[0] ")
			if k, v, ok := strings.Cut(line, "="); ok {
				env[k] = v
			}
		}
		if env["NVIDIA_VISIBLE_DEVICES"] == "" {
			return errors.New("no NVIDIA_VISIBLE_DEVICES")
		}
		return nil
	}))
	return env
}

// stop ends a job and waits until its allocations have ended, so that their
// GPUs are free.
func (r *rig) stop(name string) {
	r.t.Helper()
	must.NoError(r.t, r.StopJob(r.ctx, name, false))
	must.NoError(r.t, cluster.Until(r.ctx, name+" to end", func(ctx context.Context) error {
		stubs, err := r.Allocs(ctx, name)
		if err != nil {
			return err
		}
		for _, s := range stubs {
			if s.ClientStatus == api.AllocClientStatusRunning || s.ClientStatus == api.AllocClientStatusPending {
				return errors.New("an allocation is " + s.ClientStatus)
			}
		}
		return nil
	}))
}

// plugins returns the processes of the plugin on a client.
func (r *rig) plugins(client int) []cluster.Process {
	parent := r.Nodes[client].PID()
	return cluster.Processes(func(p cluster.Process) bool {
		return p.Parent == parent && filepath.Base(p.Args[0]) == pluginName
	})
}
