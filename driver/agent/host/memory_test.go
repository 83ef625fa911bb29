// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
)

func TestLackOfMemoryIsNamedWhenItIsCounted(t *testing.T) {
	h := New(Options{Framework: framework{}, Config: config.Config{}, Logger: hclog.NewNullLogger()})
	h.oomFile, h.oomKills = filepath.Join(t.TempDir(), "memory.events"), 0
	must.False(t, h.oomKilled(), must.Sprint("not visible"))
	must.NoError(t, os.WriteFile(h.oomFile, []byte("oom_kill 1\n"), 0o600))
	must.True(t, h.oomKilled())
	must.False(t, h.oomKilled(), must.Sprint("another process has ended for another reason"))
	must.NoError(t, os.WriteFile(h.oomFile, []byte("oom_kill 2\n"), 0o600))
	h.o.Config.EventFile = "events"
	must.False(t, h.oomKilled(), must.Sprint("the task driver reports it"))
}
