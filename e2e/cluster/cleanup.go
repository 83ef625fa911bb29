// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"os"
	"testing"
)

// StopAfter stops the cluster at the end of the test. If the test has failed,
// the cluster's logs remain in dir, in place of the logs of an earlier failure.
func (c *Cluster) StopAfter(t testing.TB, dir string) {
	t.Cleanup(func() {
		if t.Failed() {
			if err := errors.Join(os.RemoveAll(dir), c.KeepLogs(dir)); err != nil {
				t.Error(err)
			}
			t.Logf("logs of agents and allocations: %s", dir)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
}
