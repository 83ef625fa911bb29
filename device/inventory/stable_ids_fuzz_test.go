// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// FuzzOpenStableIDs starts from any content of the file of IDs. GPUs that were not
// in one island before get different IDs, and the next start agrees.
func FuzzOpenStableIDs(f *testing.F) {
	f.Add(`{"boot":"b","islands":{"GPU-x":7},"switches":{"0000:01":0},"reserved":{"GPU-x":true}}`)
	f.Add(`{"boot":"b","islands":{"GPU-x":-9223372036854775808},"switches":{},"reserved":{}}`)
	f.Add(`{"boot":"b","islands":null}`)
	root := f.TempDir()
	for _, file := range []string{"/proc/sys/kernel/random/boot_id", stableIDsFile} {
		must.NoError(f, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
	}
	must.NoError(f, os.WriteFile(filepath.Join(root, "/proc/sys/kernel/random/boot_id"), []byte("b\n"), 0o644))
	island := func(uuid string) []Unit { return []Unit{{GPU: &nvml.Facts{UUID: uuid}}} }
	open := func() *StableIDs { return OpenStableIDs(root, hclog.NewNullLogger()) }
	f.Fuzz(func(t *testing.T, text string) {
		must.NoError(t, os.WriteFile(filepath.Join(root, stableIDsFile), []byte(text), 0o644))
		known := open().ids.clone().Islands
		n := open().assign([]string{"0000:01"}, [][]Unit{island("GPU-x"), island("GPU-y")})
		_, x := known["GPU-x"]
		_, y := known["GPU-y"]
		if !x || !y {
			must.NotEq(t, n.Islands["GPU-x"], n.Islands["GPU-y"])
		}
		must.Eq(t, n, open().ids)
	})
}
