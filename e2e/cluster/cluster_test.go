// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
)

// A log directory contains the pipes of Nomad's log collectors, which may have
// ended.
func TestKeepLogsSkipsPipes(t *testing.T) {
	c, kept := &Cluster{Dir: t.TempDir()}, t.TempDir()
	logs := filepath.Join("c1", "alloc", "id", "alloc", "logs")
	must.NoError(t, os.MkdirAll(filepath.Join(c.Dir, logs), 0o755))
	must.NoError(t, syscall.Mkfifo(filepath.Join(c.Dir, logs, ".train.stdout.fifo"), 0o600))
	must.NoError(t, os.WriteFile(filepath.Join(c.Dir, logs, "train.stdout.0"), []byte("a line\n"), 0o600))
	must.NoError(t, c.KeepLogs(kept))
	entries, err := os.ReadDir(filepath.Join(kept, logs))
	must.NoError(t, err)
	must.Len(t, 1, entries)
	must.Eq(t, "train.stdout.0", entries[0].Name())
}

// `make e2e NOMAD=…` selects the Nomad to test with.
func TestBinary(t *testing.T) {
	t.Setenv(binaryVariable, "")
	must.Eq(t, "/kolo/bin/nomad", Binary("/kolo"))
	t.Setenv(binaryVariable, "/kolo/bin/nomad-1.10.5")
	must.Eq(t, "/kolo/bin/nomad-1.10.5", Binary("/kolo"))
}
