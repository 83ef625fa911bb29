// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/sandbox/cgroup"
)

// A lack of memory is reported once if the cgroup counts it, and never without a cgroup.
func TestMemoryIsNamedWhenTheCgroupSaysSo(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.kill"), nil, 0o600))
	count := func(n int) {
		must.NoError(t, os.WriteFile(filepath.Join(dir, "memory.events"), fmt.Appendf(nil, "oom %d\noom_kill %d\n", n, n), 0o600))
	}
	count(1)
	w := watchMemory(cgroup.At(dir))
	must.Eq(t, "", w.news(), must.Sprint("of a time before"))
	count(3)
	must.StrContains(t, w.news(), "killed 2 process(es) of this task for lack of memory")
	must.Eq(t, "", w.news())
	must.Eq(t, "", watchMemory("").news())
}
