// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// Nomad itself accepts every job specification and agent configuration in
// jobspecs/.
func TestJobspecs(t *testing.T) {
	ctx := testContext(t, 3*time.Minute)
	c := startCluster(t, cluster.Options{Clients: 1})
	nomad := cluster.Binary(root(t))
	run := func(t *testing.T, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, nomad, args...)
		cmd.Dir = root(t)
		out, err := cmd.CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
		must.StrNotContains(t, string(out), "Warning", must.Sprint(string(out)))
	}
	for _, path := range glob(t, "jobspecs/*.nomad.hcl") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			run(t, "job", "validate", "-address="+c.Address, path)
		})
	}
	for _, path := range glob(t, "jobspecs/agent/*.hcl") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			run(t, "config", "validate", path)
		})
	}
}

func glob(t *testing.T, pattern string) []string {
	paths, err := filepath.Glob(filepath.Join(root(t), pattern))
	must.NoError(t, err)
	must.SliceNotEmpty(t, paths, must.Sprint(pattern))
	return paths
}

// A job specification runs unchanged: isolated, with the script that is in it,
// scaled by hand.
func TestJobspecAsItStands(t *testing.T) {
	ctx := testContext(t, 5*time.Minute)
	driver := filepath.Join(root(t), "bin", "nomad-driver-horovod")
	c := startCluster(t, cluster.Options{
		Clients: 2,
		// This Python is not installed where clients have theirs.
		Plugins: map[string]string{driver: fmt.Sprintf(`
    python     = %q
    bind_paths = [%q]`, python(t), root(t))},
	})
	tr := startTraining(ctx, t, c, trainingOptions{
		count: 1,
		vars:  cluster.Vars{"isolation": "exec", "script": "local/train.py", "args": []string{}},
	})
	tr.waitLog(ctx, "1 ranks, loss")
	tr.scale(ctx, 2)
	tr.waitLog(ctx, "2 ranks, loss")
	// The task sees neither the host's processes' files nor its root.
	code, out := tr.exec(ctx, tr.running(ctx, 2)[0], "ls", "/")
	must.Eq(t, 0, code)
	must.StrContains(t, out, "local")
	must.False(t, strings.Contains(out, "home"), must.Sprint(out))
	must.NoError(t, c.StopJob(ctx, tr.id, false))
	must.NoError(t, c.WaitStatus(ctx, tr.id, "dead"))
}
