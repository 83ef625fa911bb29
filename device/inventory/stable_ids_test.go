// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/device/nvml"
)

func TestStableIDsOfAnotherBootAndBrokenOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"this boot":    {`{"boot":"b","islands":{"GPU-x":7},"switches":{},"reserved":{}}`, 7},
		"another boot": {`{"boot":"a","islands":{"GPU-x":7},"switches":{},"reserved":{}}`, 0},
		"half a file":  {`{"boot":"b","islands":{"GPU-x":`, 0},
		"another file": {`{}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, text string) {
				must.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
				must.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
			}
			write("/proc/sys/kernel/random/boot_id", "b\n")
			write(stableIDsFile, tc.text)
			u := Unit{GPU: &nvml.Facts{UUID: "GPU-x"}}
			n := OpenStableIDs(root, hclog.NewNullLogger()).assign(nil, [][]Unit{{u}})
			must.Eq(t, tc.want, n.Islands["GPU-x"])
			again := OpenStableIDs(root, hclog.NewNullLogger())
			must.Eq(t, n.Islands, again.ids.Islands)
		})
	}
	t.Run("nowhere to write", func(t *testing.T) {
		p := OpenStableIDs("/proc", hclog.NewNullLogger())
		u := Unit{GPU: &nvml.Facts{UUID: "GPU-x"}}
		must.Eq(t, 0, p.assign(nil, [][]Unit{{u}}).Islands["GPU-x"])
		must.NotEq(t, "", p.logged)
	})
}

// IDs that could not be written at first are written later.
func TestStableIDsAreWrittenWhenTheyCanBe(t *testing.T) {
	root := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(root, "run"), nil, 0o644)) // no folder
	p := OpenStableIDs(root, hclog.NewNullLogger())
	u := Unit{GPU: &nvml.Facts{UUID: "GPU-x"}}
	p.assign(nil, [][]Unit{{u}})
	must.NotEq(t, "", p.logged)
	must.NoError(t, os.Remove(filepath.Join(root, "run")))
	p.assign(nil, [][]Unit{{u}})
	must.MapContainsKey(t, OpenStableIDs(root, hclog.NewNullLogger()).ids.Islands, "GPU-x")
}

// Whatever happens to links and GPUs, a reserved GPU keeps its ID, islands that
// never met have different IDs, and every unit has an ID.
func TestStableIDsProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newIDs("")
		units := make([]Unit, 6)
		for i := range units {
			units[i].GPU = &nvml.Facts{UUID: fmt.Sprint("GPU-", i)}
		}
		met := map[[2]string]bool{}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			before := n.clone()
			parts := make([][]Unit, 3)
			for _, u := range units {
				if part := rapid.IntRange(-1, 2).Draw(rt, "part"); part >= 0 {
					parts[part] = append(parts[part], u)
				}
			}
			var islands [][]Unit
			for _, part := range parts {
				if len(part) > 0 {
					islands = append(islands, part)
				}
				for _, a := range part {
					for _, b := range part {
						met[[2]string{a.islandKey(), b.islandKey()}] = true
					}
				}
			}
			n.assign(nil, islands)
			for id := range before.Reserved {
				must.Eq(rt, before.Islands[id], n.Islands[id])
			}
			for a, na := range n.Islands {
				for b, nb := range n.Islands {
					must.True(rt, na != nb || n.connected(met, a, b), must.Sprintf("%s and %s", a, b))
				}
			}
			for _, part := range islands {
				for _, u := range part {
					must.MapContainsKey(rt, n.Islands, u.islandKey())
					if rapid.IntRange(0, 3).Draw(rt, "reserved") == 0 {
						n.Reserved[u.islandKey()] = true
					}
				}
			}
			must.False(rt, n.assign(nil, islands), must.Sprint("the same input again changes something"))
		}
	})
}

// connected reports whether two units have met, or others with their IDs have met
// both.
func (n ids) connected(met map[[2]string]bool, a, b string) bool {
	reached, todo := map[string]bool{a: true}, []string{a}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for other := range n.Islands {
			if met[[2]string{at, other}] && !reached[other] {
				reached[other] = true
				todo = append(todo, other)
			}
		}
	}
	return reached[b]
}
