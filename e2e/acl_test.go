// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// With ACLs on, workers need nothing but their workload identity to find each
// other, and one policy to note that training is complete.
func TestACL(t *testing.T) {
	t.Parallel() // it waits most of the time
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

	tr := startTraining(ctx, t, c, trainingOptions{spec: "pytorch-acl", edit: func(job *api.Job) {
		// Short, so that one expires while the test runs, and must be renewed.
		job.TaskGroups[0].Tasks[0].Identities[0].TTL = 20 * time.Second
	}})
	tr.waitSize(ctx, 1)
	old := peerToken(t, tr, tr.running(ctx, 1)[0])
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
}

// refusesStrangers calls an agent as one of its peers would: with a good
// identity, with none, with another job's, and with one that has expired.
func refusesStrangers(ctx context.Context, t *testing.T, tr *training, old string) {
	t.Helper()
	own := tr.running(ctx, 2)
	services, _, err := tr.c.API.Services().Get("pytorch-acl", query(ctx))
	must.NoError(t, err)
	must.SliceNotEmpty(t, services)
	conn, err := grpc.NewClient(fmt.Sprintf("%s:%d", services[0].Address, services[0].Port),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.NoError(t, err)
	defer conn.Close()
	call := func(token string) (codes.Code, string) {
		ctx := ctx
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		_, err := discoverypb.NewElectionClient(conn).Hello(ctx, &discoverypb.Request{})
		return status.Code(err), status.Convert(err).Message()
	}
	refused := func(who, token string, want codes.Code) {
		t.Helper()
		code, message := call(token)
		t.Logf("an agent with %s is told: %s: %s", who, code, message)
		must.Eq(t, want, code)
	}

	code, message := call(peerToken(t, tr, own[1]))
	must.NotEq(t, codes.Unauthenticated, code, must.Sprint(message))
	must.NotEq(t, codes.PermissionDenied, code, must.Sprint(message))
	refused("no identity", "", codes.Unauthenticated)

	other := startTraining(ctx, t, tr.c, trainingOptions{})
	refused("another job's identity", peerToken(t, other, other.running(ctx, 1)[0]), codes.PermissionDenied)

	must.NoError(t, cluster.Until(ctx, "the first identity to expire", func(context.Context) error {
		if code, message := call(old); code != codes.Unauthenticated {
			return fmt.Errorf("the agent says %s: %s", code, message)
		}
		return nil
	}))
	refused("an identity that has expired", old, codes.Unauthenticated)
	// It was renewed meanwhile, so that the workers still know each other.
	code, message = call(peerToken(t, tr, own[1]))
	must.NotEq(t, codes.Unauthenticated, code, must.Sprint(message))
}

// peerToken is the identity with which an allocation's agent calls others.
func peerToken(t *testing.T, tr *training, alloc *api.AllocationListStub) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(tr.c.Dir, "*", "alloc", alloc.ID, "train", "secrets", "nomad_kolo.jwt"))
	must.NoError(t, err)
	must.Len(t, 1, paths)
	token, err := os.ReadFile(paths[0])
	must.NoError(t, err)
	return string(token)
}
