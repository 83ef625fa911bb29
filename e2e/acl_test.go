// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// With ACLs, workers need only their workload identity to find each other, and one
// policy to record that training is complete.
func TestACL(t *testing.T) {
	t.Parallel() // it waits most of the time
	ctx := testContext(t, 5*time.Minute)
	c := startCluster(t, cluster.Options{ACL: true})
	rules, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "acl", "horovod.policy.hcl"))
	must.NoError(t, err)
	_, err = c.API.ACLPolicies().Upsert(&api.ACLPolicy{
		Name:   "horovod",
		Rules:  string(rules),
		JobACL: &api.JobACL{Namespace: "default", JobID: "horovod"},
	}, nil)
	must.NoError(t, err)

	tr := startTraining(ctx, t, c, trainingOptions{id: "horovod", edit: func(job *api.Job) {
		// Short, so that one expires while the test runs, and must be renewed.
		job.TaskGroups[0].Tasks[0].Identities[0].TTL = 20 * time.Second
	}})
	tr.waitSize(ctx, 1)
	old := newPeer(ctx, t, tr, tr.running(ctx, 1)[0])
	tr.scale(ctx, 3)
	tr.waitSize(ctx, 3)
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)
	refusesStrangers(ctx, t, tr, old)
	tr.finish(ctx)
	tr.checkPlanned()

	// Nomad starts completed workers again; these know that it is over.
	steps := len(tr.record().Where("step", nil))
	tr.scale(ctx, 3)
	must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
	must.Eq(t, steps, len(tr.record().Where("step", nil)))

	// Submitted again with a change, it is to be trained again.
	must.NoError(t, os.Remove(tr.file("stop")))
	tr.task().Env = map[string]string{"SEED": "2"}
	must.NoError(t, c.RegisterJob(ctx, tr.job))
	tr.waitProgress(ctx, 5)
	keepsSecrets(ctx, t, tr)
}

// peerToken returns the identity that an allocation's agent proves to others.
func peerToken(t *testing.T, tr *training, alloc *api.AllocationListStub) string {
	t.Helper()
	return secret(t, tr, alloc, "nomad_kolo.jwt")
}

// secret returns a file of an allocation's secrets directory.
func secret(t *testing.T, tr *training, alloc *api.AllocationListStub, name string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(tr.c.Dir, "*", "alloc", alloc.ID, "train", "secrets", name))
	must.NoError(t, err)
	must.Len(t, 1, paths)
	text, err := os.ReadFile(paths[0])
	must.NoError(t, err)
	return string(text)
}
