// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"

	"github.com/shoenig/test/must"
)

func levelsOf(p Pool) (names []string) {
	for _, l := range p.Levels {
		names = append(names, l.Name)
	}
	return names
}

func TestParse_Topology(t *testing.T) {
	c, err := parse(`
pool "gpu" {
  topology {
    levels = ["meta.block", "meta.rack", "node", "device.island"]
  }
}
pool "racks" {
  topology {
    levels = ["meta.rack"]
  }
}
pool "default levels" {
  topology {
    max_migrations = 0
  }
}
pool "plain" {}
`)
	must.NoError(t, err)
	must.Eq(t, []string{"meta.block", "meta.rack", "node", "device.island"}, levelsOf(c.Pool("gpu")))
	must.Eq(t, []string{"meta.rack", "node"}, levelsOf(c.Pool("racks")))
	must.Eq(t, []string{"node"}, levelsOf(c.Pool("plain")))
	must.Eq(t, []string{"node"}, levelsOf(c.Pool("without a block")))
	must.Eq(t, []string{"node"}, levelsOf(c.Pool("default levels")))
	must.True(t, c.Pool("racks").Aware)
	must.True(t, c.Pool("default levels").Aware)
	must.False(t, c.Pool("plain").Aware)
}

func TestParse_TopologyMistakes(t *testing.T) {
	for name, tc := range map[string]struct{ src, want string }{
		"a cycle": {
			"topology {\n levels = [\n  \"meta.block\",\n  \"meta.rack\",\n  \"meta.block\",\n ]\n}",
			`kolo.hcl:7: Wrong value for levels: Level "meta.block" is listed twice, and a level cannot be inside itself; keep one of the two.`,
		},
		"an unknown level":      {`topology { levels = ["meta.block", "rack"] }`, `kolo.hcl:3: Wrong value for levels: Level "rack" is not known`},
		"a rack inside a node":  {`topology { levels = ["node", "meta.rack"] }`, `kolo.hcl:3: Wrong value for levels: Level "meta.rack" is inside "node"`},
		"nine levels":           {`topology { levels = ["meta.1", "meta.2", "meta.3", "meta.4", "meta.5", "meta.6", "meta.7", "meta.8", "meta.9"] }`, "kolo.hcl:3: Wrong value for levels: 9 levels are more than 8"},
		"no list":               {`topology { levels = "meta.rack" }`, "kolo.hcl:3: Wrong value for levels: A list of levels is expected"},
		"no text":               {`topology { levels = [1] }`, "kolo.hcl:3: Wrong value for levels: Entry 1 is no text"},
		"no levels":             {"topology {\n  levels = []\n}", "kolo.hcl:4: Wrong value for levels: There is no level"},
		"two blocks":            {"topology { levels = [\"node\"] }\ntopology { levels = [\"node\"] }", "kolo.hcl:4: Repeated block"},
		"something else in it":  {"topology {\n  levels = []\n  racks = 3\n}", "kolo.hcl:5: Unsupported argument"},
		"the name was mistyped": {"topolgy {}", "kolo.hcl:3: Unsupported block type"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("pool \"gpu\" {\n\n" + tc.src + "\n}\n")
			must.ErrorContains(t, err, tc.want)
		})
	}
}
