// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// Horovod grows and shrinks on the PyTorch of bin/torch as on the older one of
// .venv, which the other tests use.
func TestNewerPyTorch(t *testing.T) {
	horovod := train.Horovod
	horovod.Python = "bin/torch/venv/bin/python"
	if _, err := os.Stat(filepath.Join(root(t), horovod.Python)); err != nil {
		t.Skip("there is no Horovod in bin/torch/venv; make torch-horovod sets it up")
	}
	ctx := testContext(t, 3*time.Minute)
	const samples = 1200
	job, err := train.Start(train.Launch{
		Root: root(t), Framework: horovod, Hosts: []string{"localhost:2"}, Args: []string{fmt.Sprintf("--samples=%d", samples)},
		Launcher: horovod.Run(root(t), "-np", "2", "--min-np", "1", "--max-np", "3"),
	})
	must.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(job.Log())
			t.Logf("log of the launcher and its processes (%v):\n%s", err, log)
		}
		must.NoError(t, job.Stop())
	})

	for _, size := range []int{2, 3, 1} {
		changed, err := job.SetHosts(fmt.Sprintf("localhost:%d", size))
		must.NoError(t, err)
		_, err = job.Wait(ctx, fmt.Sprintf("ring of %d", size), time.Minute, func(r train.Record) *train.Event {
			if r.CheckSize(size, changed) != nil {
				return nil
			}
			last := r.Last()
			return &last
		})
		must.NoError(t, err)
	}
	must.NoError(t, job.Finish())
	must.True(t, job.Exit().Success())
	must.NoError(t, job.Update())
	must.Eq(t, []int{2, 3, 1}, job.Record.Sizes())
	must.NoError(t, job.Record.CheckConsecutive())
	must.NoError(t, job.Record.CheckSamples(samples))
}
