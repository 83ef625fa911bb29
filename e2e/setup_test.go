// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// root returns the project's root directory.
func root(t testing.TB) string {
	dir, err := filepath.Abs("..")
	must.NoError(t, err)
	return dir
}

// testContext returns a context that ends with the test, or after the given time,
// which is a generous bound for operations that may hang.
func testContext(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not within %s", limit))
	t.Cleanup(cancel)
	return ctx
}

// startCluster starts a Nomad cluster with Kolo's driver, which ends with the
// test. The logs of a failed test stay in e2e/.work.
func startCluster(t testing.TB, o cluster.Options) *cluster.Cluster {
	t.Helper()
	bin := filepath.Join(root(t), "bin")
	o.Nomad = cluster.Binary(root(t))
	o.Log = t.Logf
	if o.Plugins == nil {
		o.Plugins = map[string]string{}
	}
	driver := filepath.Join(bin, "nomad-driver-horovod")
	if _, err := os.Stat(driver); err == nil && o.Plugins[driver] == "" {
		o.Plugins[driver] = fmt.Sprintf("allow_isolation_none = true\npython = %q\n", python(t))
	}
	env := map[string]string{"PATH": filepath.Dir(python(t)) + ":" + os.Getenv("PATH")}
	maps.Copy(env, o.Env)
	o.Env = env

	c, err := cluster.Start(testContext(t, 3*time.Minute), o)
	must.NoError(t, err)
	c.StopAfter(t, filepath.Join(root(t), "e2e", ".work", strings.ReplaceAll(t.Name(), "/", "-")))
	return c
}

// python returns the interpreter that has Horovod.
func python(t testing.TB) string {
	return filepath.Join(root(t), ".venv", "bin", "python")
}
