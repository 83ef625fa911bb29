// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestTaskThatIsNotRecoveredLeavesNothing has a task whose executor has ended while
// no driver ran.
func TestTaskThatIsNotRecoveredLeavesNothing(t *testing.T) {
	isolated(t)
	first := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationExec, `echo x > /dev/shm/x; echo ready; exec sleep 1000`)
	handle := first.start(t, c)
	eventually(t, "the task is ready", func() bool { return strings.Contains(output(t, c), "ready") })
	running, err := first.driver.task(c.ID)
	must.NoError(t, err)
	first.kill()
	running.executor.Kill()
	<-running.done
	shm := running.cleanup[0]
	must.FileExists(t, filepath.Join(shm, "x"))
	must.Error(t, newHarness(t, noIsolation()).RecoverTask(handle))
	must.DirNotExists(t, shm)
	must.DirNotExists(t, privateDirsOf(c).Root)
}
