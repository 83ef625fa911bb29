// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspecs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/jobspec2"
	"github.com/shoenig/test/must"
)

// Every job that trains has what the driver asks for: a service on the port
// that the group reserves, both identities, and a script. (The test
// TestJobspecs in e2e also asks a real Nomad.)
func TestTrainingJobs(t *testing.T) {
	paths, err := filepath.Glob("pytorch-*.nomad.hcl")
	must.NoError(t, err)
	must.SliceNotEmpty(t, paths)
	for _, path := range append(paths, "torch.nomad.hcl", "torchrun.nomad.hcl") {
		t.Run(filepath.Base(path), func(t *testing.T) {
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
					if strings.HasPrefix(path, "torch") {
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

// The job with an image has what kolo-worker asks for.
func TestContainerJob(t *testing.T) {
	job := parse(t, "torch-docker.nomad.hcl")
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

// All that end in .nomad.hcl are job specifications.
func TestParse(t *testing.T) {
	paths, err := filepath.Glob("*.nomad.hcl")
	must.NoError(t, err)
	for _, path := range paths {
		t.Run(path, func(t *testing.T) { parse(t, path) })
	}
}

func parse(t *testing.T, path string) *api.Job {
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{Path: path, Body: text, Strict: true})
	must.NoError(t, err)
	return job
}
