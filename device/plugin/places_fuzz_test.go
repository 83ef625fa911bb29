// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// FuzzReadPlaces has anything stand in the file of numbers: GPUs that were not
// in one island before are numbered apart, and the next start agrees.
func FuzzReadPlaces(f *testing.F) {
	f.Add(`{"boot":"b","islands":{"GPU-x":7},"switches":{"0000:01":0},"taken":{"GPU-x":true}}`)
	f.Add(`{"boot":"b","islands":{"GPU-x":-9223372036854775808},"switches":{},"taken":{}}`)
	f.Add(`{"boot":"b","islands":null}`)
	root := f.TempDir()
	for _, file := range []string{"/proc/sys/kernel/random/boot_id", placesFile} {
		must.NoError(f, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
	}
	must.NoError(f, os.WriteFile(filepath.Join(root, "/proc/sys/kernel/random/boot_id"), []byte("b\n"), 0o644))
	gpu := func(uuid string) []unit {
		c := &card{}
		c.facts.UUID = uuid
		return []unit{{card: c}}
	}
	f.Fuzz(func(t *testing.T, text string) {
		must.NoError(t, os.WriteFile(filepath.Join(root, placesFile), []byte(text), 0o644))
		known := readPlaces(root, hclog.NewNullLogger()).numbers.clone().Islands
		n := readPlaces(root, hclog.NewNullLogger()).add([]string{"0000:01"}, [][]unit{gpu("GPU-x"), gpu("GPU-y")})
		_, x := known["GPU-x"]
		_, y := known["GPU-y"]
		if !x || !y {
			must.NotEq(t, n.Islands["GPU-x"], n.Islands["GPU-y"])
		}
		must.Eq(t, n, readPlaces(root, hclog.NewNullLogger()).numbers)
	})
}
