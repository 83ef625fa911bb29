// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	_ "embed" // the jobspec
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

//go:embed job.nomad.hcl
var jobspec string

// globalBatch is the number of samples that all ranks process together in a step. It
// divides by 1 to 6 ranks, so that each sample is used once in any ring.
const globalBatch = 60

// A job is one training job of the demo, and what its processes have recorded. A step on n
// ranks takes at least serial + parallel/n. A rank spends that time waiting rather than
// computing, as it would for its GPU, because this machine has few cores.
type job struct {
	name, queue      string
	steps            int // of globalBatch samples, in epochs of epochSteps
	serial, parallel time.Duration

	submitted time.Time
	dir       string
	follower  *train.Follower
	record    train.Record
	resizes   []resize
}

// epochSteps is the length of an epoch.
const epochSteps = 20

// jobs returns, in order of arrival, one job that scales well, one that is long and scales
// badly, and one that is short and scales well.
func jobs() []*job {
	return []*job{
		{name: "first", queue: "research", steps: 280, serial: 50 * time.Millisecond, parallel: 1200 * time.Millisecond},
		{name: "second", queue: "teaching", steps: 140, serial: 600 * time.Millisecond, parallel: 800 * time.Millisecond},
		{name: "third", queue: "teaching", steps: 80, serial: 50 * time.Millisecond, parallel: 600 * time.Millisecond},
	}
}

// submit registers the job.
func (j *job) submit(ctx context.Context, c *cluster.Cluster, root string, f train.Framework, gpu bool) error {
	j.dir = filepath.Join(c.Dir, "training", j.name)
	if err := os.MkdirAll(j.dir, 0o777); err != nil {
		return err
	}
	j.follower = train.Follow(filepath.Join(j.dir, "records"))
	spec, err := c.Parse(jobspec, cluster.Vars{
		"name": j.name, "queue": j.queue, "gpu": gpu, "max": slots, "driver": f.Name,
		"python": filepath.Join(root, f.Python), "script": filepath.Join(root, f.Script), "env": f.Env(root),
		"args": []string{
			fmt.Sprintf("--epochs=%d", j.steps/epochSteps),
			fmt.Sprintf("--samples=%d", epochSteps*globalBatch),
			fmt.Sprintf("--global-batch=%d", globalBatch),
			fmt.Sprintf("--step-time=%g", j.serial.Seconds()),
			fmt.Sprintf("--sample-time=%g", j.parallel.Seconds()/globalBatch),
			"--records=" + filepath.Join(j.dir, "records"),
		},
	})
	if err != nil {
		return err
	}
	finish(spec, j.name, f)
	j.submitted = time.Now()
	return c.RegisterJob(ctx, spec)
}

// finish makes changes that no variable of the job specification can make: it sets the
// job's name, and removes Horovod's settings for other frameworks.
func finish(spec *api.Job, name string, f train.Framework) {
	spec.ID, spec.Name = &name, &name
	if f.Name != train.Horovod.Name {
		delete(spec.TaskGroups[0].Tasks[0].Config, "horovod")
	}
}

// follow reads what the job's processes recorded since the last call, and returns the
// resizes in it.
func (j *job) follow() ([]resize, error) {
	if j.follower == nil {
		return nil, nil
	}
	more, err := j.follower.Next()
	if err != nil || len(more) == 0 {
		return nil, err
	}
	j.record = append(j.record, more...)
	known := len(j.resizes)
	j.resizes = resizes(j.record)
	return j.resizes[known:], nil
}
