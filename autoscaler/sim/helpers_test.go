// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// shared returns the path of a file among the reference data, which are not part of the
// project.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("KOLO_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path, err := filepath.Abs(filepath.Join(append([]string{dir}, elem...)...))
	must.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no reference data: set KOLO_SHARED (%v)", err)
	}
	return path
}

// pollux returns one of the four Pollux workloads.
func pollux(t testing.TB, workload int) *trace.Trace {
	t.Helper()
	tr, err := trace.Open(shared(t, "data", "pollux", "jobs.csv"), trace.Options{Workload: workload})
	must.NoError(t, err)
	return tr
}

func parse(t testing.TB, spec string) policy.Policy {
	t.Helper()
	p, err := builtin.Policies.Parse(spec)
	must.NoError(t, err)
	return p
}
