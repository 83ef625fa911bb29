// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"context"
	"fmt"
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

// world is a cluster whose nodes have an engine, and the registry they pull from.
type world struct {
	*cluster.Cluster
	engine   engine
	registry *registry
	// image is the name of the image that jobs have unless they want another.
	image string
	// torch is bin/torch.
	torch string
}

// root returns the project's root directory.
func root(t testing.TB) string {
	dir, err := filepath.Abs("../..")
	must.NoError(t, err)
	return dir
}

// testContext returns a context that ends with the test, or after the given time, which is
// a generous bound for operations that may hang.
func testContext(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not within %s", limit))
	t.Cleanup(cancel)
	return ctx
}

// volumes returns the host volumes of every client, and where jobs mount them. torch is
// bin/torch, or the target if that is a link.
func volumes(torch, project string) map[string]volume {
	list := map[string]volume{
		"kolo":     {filepath.Join(project, "bin"), "/kolo", true},
		"torch":    {filepath.Join(torch, "root", "usr"), "/usr", true},
		"python":   {filepath.Join(project, "python"), filepath.Join(project, "python"), true},
		"script":   {filepath.Join(project, "e2e", "train"), filepath.Join(project, "e2e", "train"), true},
		"training": {"@CLUSTER@/training", "/training", false},
	}
	if _, err := os.Stat(filepath.Join(torch, "venv")); err == nil {
		list["horovod"] = volume{filepath.Join(torch, "venv"), "/horovod", true}
	}
	return list
}

type volume struct {
	path, mounted string
	readOnly      bool
}

// startWorld starts two nodes with the engine, and a registry.
func (e engine) startWorld(ctx context.Context, t testing.TB) *world {
	t.Helper()
	w := &world{engine: e}
	project := root(t)
	if err := train.Torch.Check(project); err != nil {
		t.Skipf("needs %v: make build torch", err)
	}
	var err error
	w.torch, err = filepath.EvalSymlinks(filepath.Join(project, "bin", "torch"))
	must.NoError(t, err)
	o := cluster.Options{
		Nomad: cluster.Binary(project), Clients: 2, ACL: true, Log: t.Logf, Drivers: []string{e.driver}, Plugins: map[string]string{}, ClientHCL: e.clientHCL,
		Prepare: func(ctx context.Context, n *cluster.Node) error {
			if w.registry == nil {
				if n.IP == "127.0.0.1" {
					t.Skip("needs network namespaces, and the commands ip and nsenter")
				}
				// The server's address is the bridge's: the first of the network.
				w.registry = startRegistry(t, n.IP[:strings.LastIndexByte(n.IP, '.')]+".1", filepath.Join(w.torch, "root"))
				w.image = w.registry.image(t, "1", nil, nil)
				training := filepath.Join(filepath.Dir(n.Dir()), "training")
				if err := os.MkdirAll(training, 0o755); err != nil {
					return err
				}
			}
			if err := os.MkdirAll(n.Dir(), 0o755); err != nil {
				return err
			}
			return e.start(ctx, n, w.registry.Address)
		},
	}
	e.options(project, &o)
	for name, v := range volumes(w.torch, project) {
		o.ClientHCL += fmt.Sprintf("host_volume %q {\n path = %q\n read_only = %t\n}\n", name, v.path, v.readOnly)
	}
	start, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	w.Cluster, err = cluster.Start(start, o)
	must.NoError(t, err)
	w.StopAfter(t, filepath.Join(project, "e2e", ".work", strings.ReplaceAll(t.Name(), "/", "-")))
	for _, n := range w.Nodes {
		must.NoError(t, cluster.Until(start, e.driver+" on "+n.Name, func(ctx context.Context) error {
			info, err := n.Info(ctx)
			if err == nil && (info.Drivers[e.driver] == nil || !info.Drivers[e.driver].Healthy) {
				err = fmt.Errorf("it is %+v", info.Drivers[e.driver])
			}
			return err
		}))
	}
	return w
}

// allow lets a job record that its training is complete, as docs/howto/use-acls.md has it.
func (w *world) allow(t testing.TB, job string) {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(root(t), "jobspecs", "acl", "horovod.policy.hcl"))
	must.NoError(t, err)
	_, err = w.API.ACLPolicies().Upsert(&api.ACLPolicy{
		Name: job, Rules: strings.ReplaceAll(string(rules), "horovod", job), JobACL: &api.JobACL{Namespace: "default", JobID: job},
	}, nil)
	must.NoError(t, err)
}
