// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

const gpusConfiguration = `
nomad {
  address = "%s"
  resync  = "5s"
}
leader {
  ttl   = "10s"
  delay = "1s"
}
planner {
  hold              = "1s"
  tick              = "2s"
  placement_timeout = "5s"
  placement_retry   = "1h"
}
pool "default" {
  device      = "nvidia/gpu"
  idle_after  = "1m"
  idle_action = "suspend"
  policy "elastic-fifo" {}
}
`

// serversHCL is a job with one server without a GPU for every two workers with one.
const serversHCL = `
job "NAME" {
  type = "batch"
  group "ps" {
    NETWORK
    scaling {
      min = 0
      max = 2
      policy {
        kolo {
          gang  = ["ps", "workers"]
          ratio = "1:2"
        }
      }
    }
    task "t" {
      driver = "raw_exec"
      kill_timeout = "5s"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 3000
        memory = 32
      }
    }
  }
  group "workers" {
    scaling {
      min = 0
      max = 4
      policy {
        kolo {}
      }
    }
    task "t" {
      driver = "raw_exec"
      kill_timeout = "5s"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 100
        memory = 32
        device "nvidia/gpu" {}
      }
    }
  }
}
`

// gpuWorld is a cluster with eight stand-in GPUs on its first client, and an autoscaler.
type gpuWorld struct {
	*world
	*daemon
	hw *nvmltest.Machine
}

// startGPUs starts a cluster whose first client has eight stand-in GPUs, and waits until the
// autoscaler knows them.
func startGPUs(t *testing.T, clients int) *gpuWorld {
	t.Helper()
	if os.Getenv(givenNomad) != "" {
		t.Skip("requires clients with stand-in GPUs")
	}
	plugin := filepath.Join(t.TempDir(), "nomad-device-nvtopo")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", plugin, "./device/cmd/nomad-device-nvtopo")
	build.Dir = root(t)
	out, err := build.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	g := &gpuWorld{world: startWith(t, cluster.Options{
		Clients: clients, CPU: 4000, MemoryMB: 8192, Grace: cluster.Patient,
		Plugins: map[string]string{plugin: `fingerprint_period = "5s"`}, Env: nvmltest.RelativeEnv(),
	})}
	g.hw = nvmltest.At(t, filepath.Join(g.Dir, g.Nodes[0].Name), "pcie-l40s")
	g.daemon = g.agentWith(t, "one", fmt.Sprintf(gpusConfiguration, g.Address))
	waitFor(t, time.Minute, "leadership", g.leads)
	waitFor(t, 2*time.Minute, "the GPUs", func() bool {
		s, err := g.status()
		return err == nil && len(s.Pools) == 1 && s.Pools[0].Capacity == 8
	})
	return g
}

// TestGPUs runs jobs that hold GPUs, as the device plugin reports them: jobs that do not use
// them, and gangs whose servers need none.
func TestGPUs(t *testing.T) {
	g := startGPUs(t, 2)
	for i := range g.hw.UUIDs() {
		g.hw.Set(i, "util", "50")
	}
	events := (&promises{daemon: g.daemon}).listen(t)

	for name, kolo := range map[string]string{"busy": "max = 1", "elastic": "max = 2", "preemptible": "max = 1\npreemptible = true"} {
		hcl := strings.NewReplacer("NAME", name, "kolo { KOLO }", "kolo {\n"+kolo+"\n}", "cpu    = 1000", "cpu = 100\ndevice \"nvidia/gpu\" {}").Replace(jobHCL)
		g.register(t, hcl)
	}
	g.eventually(t, time.Minute, map[string]int{"busy": 1, "elastic": 2, "preemptible": 1})
	t.Log("two jobs no longer use their GPUs")
	g.use(t, "elastic", "0")
	g.use(t, "preemptible", "0")
	g.gangs(t)

	g.eventually(t, 3*time.Minute, map[string]int{"busy": 1, "elastic": 1, "preemptible": 0})
	for _, name := range []string{"elastic", "preemptible"} {
		events.eventually(t, "idle", "default/"+name)
	}
	waitFor(t, time.Minute, "the metric of the job that is still idle", func() bool {
		text := g.metrics(t)
		return strings.Contains(text, `kolo_job_idle_seconds{job_id="elastic"`) && !strings.Contains(text, `kolo_job_idle_seconds{job_id="busy"`)
	})
	must.StrContains(t, g.message(t, "elastic"), "it is idle and has its minimum until its GPUs are used again (its GPUs were idle since ")
	must.StrContains(t, g.message(t, "preemptible"), "it is idle and is suspended (its GPUs were idle since ")
	waitFor(t, time.Minute, "the suspended job to be held", func() bool { return g.job(t, "preemptible").State == koloapi.StateHeld })

	t.Log("it uses them again")
	g.use(t, "elastic", "50")
	g.eventually(t, time.Minute, map[string]int{"busy": 1, "elastic": 2, "preemptible": 0})
	g.purgeAll(t)
}

// gangs runs gangs on the four GPUs that the other jobs leave.
func (g *gpuWorld) gangs(t *testing.T) {
	t.Log("the second server finds no CPU, so the second unit does not start")
	g.rigid(t, "cpu", 1, fmt.Sprintf("constraint {\nattribute = \"${node.unique.id}\"\nvalue = %q\n}", g.Nodes[1].ID), strings.NewReplacer("cpu    = 1000", "cpu = 3500"))
	g.eventually(t, time.Minute, map[string]int{"cpu": 1})
	g.register(t, strings.NewReplacer("NAME", "gang", "NETWORK", "").Replace(serversHCL))
	g.eventuallyGroups(t, "gang", 1, 2)
	waitFor(t, time.Minute, "what it lacks", func() bool {
		j := g.job(t, "gang")
		return j.HoldReason == "needs room for 3 more, and there is room for 0" && j.Lacks != nil && j.Lacks.Slots == 2 && j.Slots() == 2
	})

	t.Log("it runs on a node without GPUs")
	g.purgeJob(t, "cpu")
	g.eventuallyGroups(t, "gang", 2, 4)

	g.purgeJob(t, "gang")

	t.Log("Nomad places the workers and not the server: the gang gives its GPUs back")
	port := `network {
      port "serve" {
        static = 18123
      }
    }`
	g.rigid(t, "port", 2, "constraint {\noperator = \"distinct_hosts\"\nvalue = \"true\"\n}\n"+port, strings.NewReplacer("cpu    = 1000", "cpu = 100"))
	g.eventually(t, time.Minute, map[string]int{"port": 2})
	g.register(t, strings.NewReplacer("NAME", "gang", "NETWORK", port).Replace(serversHCL))
	waitFor(t, time.Minute, "the workers", func() bool { return g.everPlaced(t, "gang") > 0 })
	g.eventuallyGroups(t, "gang", 0, 0)
	must.StrContains(t, g.message(t, "gang"), "2 of 6 workers found no place in 5s")
	allocs, _, err := g.API.Jobs().Allocations("gang", true, nil)
	must.NoError(t, err)
	must.False(t, slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool { return a.TaskGroup == "ps" }))
	g.purgeJob(t, "gang")
	g.purgeJob(t, "port")
}

// use sets the utilization of the GPUs that a job holds, in percent.
func (g *gpuWorld) use(t *testing.T, job, percent string) {
	t.Helper()
	running, err := g.Running(t.Context(), job)
	must.NoError(t, err)
	for _, stub := range running {
		a, _, err := g.API.Allocations().Info(stub.ID, nil)
		must.NoError(t, err)
		for _, id := range a.AllocatedResources.Tasks["t"].Devices[0].DeviceIDs {
			g.hw.Set(slices.Index(g.hw.UUIDs(), id), "util", percent)
		}
	}
}

// job returns the status of a job.
func (g *gpuWorld) job(t *testing.T, id string) koloapi.JobStatus {
	t.Helper()
	return (&promises{daemon: g.daemon}).job(t, id)
}

// message returns the message of the last change of a job's count.
func (g *gpuWorld) message(t *testing.T, job string) string {
	t.Helper()
	s, _, err := g.API.Jobs().ScaleStatus(job, nil)
	must.NoError(t, err)
	must.SliceNotEmpty(t, s.TaskGroups["workers"].Events)
	return s.TaskGroups["workers"].Events[0].Message
}

// metrics returns the autoscaler's metrics.
func (d *daemon) metrics(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(d.address + "/v1/metrics")
	must.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	return string(text)
}
