// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

const sleeperJob = `
job "sleeper" {
  type = "batch"
  group "g" {
    count = 2
    reschedule {
      attempts  = 5
      interval  = "1h"
      unlimited = false
      delay     = "5s"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo hello; exec sleep 1000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}`

// The harness itself is tested with a driver that is not Kolo's, because other
// tests rely on it when they blame Kolo.
func TestHarness(t *testing.T) {
	t.Parallel() // it waits most of the time
	ctx := testContext(t, 3*time.Minute)
	c := startCluster(t, cluster.Options{})

	_, err := c.Register(ctx, sleeperJob, nil)
	must.NoError(t, err)
	allocs, err := c.WaitRunning(ctx, "sleeper", 2)
	must.NoError(t, err)
	must.NoError(t, cluster.Until(ctx, "the log", func(context.Context) error {
		text, err := c.Logs(allocs[0].ID, "t", "stdout")
		if err == nil && text != "hello\n" {
			err = fmt.Errorf("it is %q", text)
		}
		return err
	}))

	must.NoError(t, c.Scale(ctx, "sleeper", "g", 3))
	allocs, err = c.WaitRunning(ctx, "sleeper", 3)
	must.NoError(t, err)

	// A killed client leaves its tasks alone, and finds them again.
	node := c.NodeOf(allocs[0])
	before := sleepersOf(allocs[0].ID)
	must.Len(t, 1, before)
	must.NoError(t, node.Kill())
	must.NoError(t, node.Start(ctx))
	must.Eq(t, before[0].PID, sleepersOf(allocs[0].ID)[0].PID)

	t.Run("cut off", func(t *testing.T) {
		if err := node.Cut(ctx); errors.Is(err, cluster.ErrShared) {
			t.Skip(err)
		}
		must.NoError(t, cluster.Until(ctx, "the node to be lost", func(ctx context.Context) error {
			info, err := node.Info(ctx)
			if err == nil && info.Status != "down" {
				err = fmt.Errorf("%s is %s", node.Name, info.Status)
			}
			return err
		}))
		_, err := c.WaitRunning(ctx, "sleeper", 3)
		must.NoError(t, err)
		must.NoError(t, node.Restore(ctx))
		must.NoError(t, cluster.Until(ctx, "the replaced task to end", func(context.Context) error {
			if left := sleepersOf(allocs[0].ID); len(left) > 0 {
				return fmt.Errorf("process %d runs", left[0].PID)
			}
			return nil
		}))
	})

	must.NoError(t, c.StopJob(ctx, "sleeper", false))
	must.NoError(t, c.WaitStatus(ctx, "sleeper", "dead"))
}

func sleepersOf(allocID string) []cluster.Process {
	return cluster.Processes(func(p cluster.Process) bool {
		return p.Args[0] == "sleep" && p.Env["NOMAD_ALLOC_ID"] == allocID
	})
}
