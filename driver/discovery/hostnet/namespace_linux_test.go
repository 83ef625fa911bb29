// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostnet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/sandbox/ownthread"
)

// TestInsideLeavesTheProcessInItsNetwork enters another network so often that Go uses every
// thread for it.
func TestInsideLeavesTheProcessInItsNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	before, err := os.Readlink("/proc/self/ns/net")
	must.NoError(t, err)
	path := filepath.Join(t.TempDir(), "net")
	must.NoError(t, os.WriteFile(path, nil, 0o600))
	must.NoError(t, ownthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(path, unix.MNT_DETACH)) })
	for range 200 {
		must.NoError(t, Inside(path, func() error {
			n, err := Look()
			must.NoError(t, err)
			must.Eq(t, &Network{Interfaces: []string{"lo"}}, n)
			return nil
		}))
	}
	after, err := os.Readlink("/proc/self/ns/net")
	must.NoError(t, err)
	must.Eq(t, before, after)
}
