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

// With ACLs on, workers need nothing but their workload identity to find each
// other, and one policy to note that training is complete.
func TestACL(t *testing.T) {
	ctx := testContext(t, 5*time.Minute)
	c := startCluster(t, cluster.Options{ACL: true})
	rules, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "acl", "pytorch-acl.policy.hcl"))
	must.NoError(t, err)
	_, err = c.API.ACLPolicies().Upsert(&api.ACLPolicy{
		Name:   "pytorch-acl",
		Rules:  string(rules),
		JobACL: &api.JobACL{Namespace: "default", JobID: "pytorch-acl"},
	}, nil)
	must.NoError(t, err)

	tr := startTraining(ctx, t, c, trainingOptions{spec: "pytorch-acl"})
	tr.waitSize(ctx, 1)
	tr.scale(ctx, 3)
	tr.waitSize(ctx, 3)
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)
	tr.finish(ctx)
	tr.checkPlanned()

	// Nomad starts completed workers again; these know that it is over.
	steps := len(tr.record().Where("step", nil))
	tr.scale(ctx, 3)
	must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
	must.Eq(t, steps, len(tr.record().Where("step", nil)))
}
