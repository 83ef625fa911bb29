// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspecs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/jobspec2"
	"github.com/shoenig/test/must"
)

// Every job that trains has the blocks that the driver requires: a service on the port that
// the group reserves, both identities, and a script. (The test TestJobspecs in e2e also
// asks a real Nomad.)
func TestTrainingJobs(t *testing.T) {
	for _, path := range []string{"horovod.nomad.hcl", "torch.nomad.hcl", "torchrun.nomad.hcl"} {
		t.Run(path, func(t *testing.T) {
			job := parse(t, path)
			must.Eq(t, "batch", *job.Type)
			for _, group := range job.TaskGroups {
				must.Len(t, 1, group.Services)
				service := group.Services[0]
				must.Eq(t, "nomad", service.Provider)
				must.Len(t, 1, group.Networks)
				must.Eq(t, service.PortLabel, group.Networks[0].DynamicPorts[0].Label)
				must.NotNil(t, group.Scaling)
				must.True(t, *group.ReschedulePolicy.Unlimited)
				for _, task := range group.Tasks {
					framework := "horovod"
					if path != "horovod.nomad.hcl" {
						framework = "torch"
					}
					must.Eq(t, framework, task.Driver)
					must.Eq(t, service.Name, task.Config["service"].(string))
					must.True(t, task.Identity.File)
					must.Len(t, 1, task.Identities)
					must.Eq(t, []string{"kolo"}, task.Identities[0].Audience)
				}
			}
		})
	}
}

// Nomad 2 warns of a group with services and no shutdown_delay. Workers have the
// shortest: it keeps them from leaving at the next commit.
func TestShutdownDelay(t *testing.T) {
	paths, err := filepath.Glob("*.nomad.hcl")
	must.NoError(t, err)
	must.SliceNotEmpty(t, paths)
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			for _, group := range parse(t, path).TaskGroups {
				if len(group.Services) == 0 {
					continue
				}
				must.NotNil(t, group.ShutdownDelay)
				must.Positive(t, *group.ShutdownDelay)
				for _, task := range group.Tasks {
					must.Zero(t, task.ShutdownDelay) // would come on top
					if task.Driver == "horovod" || task.Driver == "torch" {
						must.LessEq(t, 10*time.Millisecond, *group.ShutdownDelay)
					}
				}
			}
		})
	}
}

// The job with an image has the blocks that kolo-worker requires.
func TestContainerJob(t *testing.T) {
	job := parse(t, "container.nomad.hcl")
	must.Eq(t, "batch", *job.Type)
	group := job.TaskGroups[0]
	service, task := group.Services[0], group.Tasks[0]
	must.Eq(t, "nomad", service.Provider)
	must.Eq(t, service.PortLabel, group.Networks[0].DynamicPorts[0].Label)
	must.Eq(t, "", group.Networks[0].Mode)
	must.True(t, *group.ReschedulePolicy.Unlimited)
	must.Eq(t, "docker", task.Driver)
	must.Eq(t, "host", task.Config["network_mode"].(string))
	must.Eq(t, "${NOMAD_IP_"+service.PortLabel+"}", task.Config["hostname"].(string))
	args := task.Config["args"].([]any)
	must.SliceContains(t, args, any("--service="+service.Name))
	must.SliceContains(t, args, any("--kill_timeout="+task.KillTimeout.String()))
	must.SliceContains(t, args, any("--"))
	must.True(t, task.Identity.File)
	must.False(t, task.Identity.Env, must.Sprint("docker inspect shows the environment"))
	must.Eq(t, []string{"kolo"}, task.Identities[0].Audience)
}

// Each variable turns a job specification into a variant that would otherwise be a file of
// its own.
func TestVariables(t *testing.T) {
	for name, c := range map[string]struct {
		vars             []string
		slots, least, np int
		devices          []*api.RequestedDevice
		cpu, memory      int
	}{
		"CPUs":          {nil, 1, 1, 4, nil, 1000, 1024},
		"several slots": {[]string{"slots=2"}, 2, 2, 8, nil, 2000, 2048},
		"GPUs": {
			[]string{"gpus=2", "max=8", "cpu=4000", "memory=8192"}, 2, 2, 16,
			[]*api.RequestedDevice{{Name: "nvidia/gpu", Count: new(uint64(2))}}, 8000, 16384,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := parse(t, "horovod.nomad.hcl", append(c.vars, "name=bert")...)
			must.Eq(t, "bert", *job.ID)
			group := job.TaskGroups[0]
			must.Eq(t, "bert", group.Services[0].Name)
			task := group.Tasks[0]
			config := map[string]any{"service": task.Config["service"], "slots": task.Config["slots"], "min_np": task.Config["min_np"], "max_np": task.Config["max_np"]}
			must.Eq(t, map[string]any{"service": "bert", "slots": c.slots, "min_np": c.least, "max_np": c.np}, config)
			must.Eq(t, c.devices, task.Resources.Devices)
			must.Eq(t, []int{c.cpu, c.memory}, []int{*task.Resources.CPU, *task.Resources.MemoryMB})
		})
	}
}

// Each engine's driver reads its own form of shm_size. A condition has one type, so
// docker's is a text with a number, which Nomad converts by the plugin's schema.
func TestContainerJob_Variables(t *testing.T) {
	for engine, size := range map[string]string{"docker": "1073741824", "podman": "1g"} {
		task := parse(t, "container.nomad.hcl", "driver="+engine, "gpus=2", `flags=["--torch.backend=nccl"]`).TaskGroups[0].Tasks[0]
		must.Eq(t, engine, task.Driver)
		must.Eq(t, size, fmt.Sprint(task.Config["shm_size"]))
		must.SliceContainsAll(t, task.Config["args"].([]any), []any{
			"--framework=torch", "--service=container", "--kill_timeout=30s", "--max_np=8", "--torch.backend=nccl", "--", "python3", "/local/train.py",
		})
		must.Eq(t, []*api.RequestedDevice{{Name: "nvidia/gpu", Count: new(uint64(2))}}, task.Resources.Devices)
	}
}

// All files that end in .nomad.hcl are job specifications.
func TestParse(t *testing.T) {
	paths, err := filepath.Glob("*.nomad.hcl")
	must.NoError(t, err)
	for _, path := range paths {
		t.Run(path, func(t *testing.T) { parse(t, path) })
	}
}

func parse(t *testing.T, path string, vars ...string) *api.Job {
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{Path: path, Body: text, ArgVars: vars, Strict: true})
	must.NoError(t, err)
	return job
}
