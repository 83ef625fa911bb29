// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"

	"github.com/shoenig/test/must"
)

// Of a configuration, only its pools are sent to another machine for a plan.
func TestPoolBlocks(t *testing.T) {
	sources := map[string][]byte{
		"a.hcl": []byte("nomad {\n  token = \"secret\"\n}\npool \"gpu\" {\n  queue \"a\" { guarantee = 3 }\n}\n"),
		"b.hcl": []byte("pool \"*\" {\n policy \"fifo\" {}\n} # a comment\n"),
	}
	text := PoolBlocks(sources)
	must.Eq(t, "pool \"gpu\" {\n  queue \"a\" { guarantee = 3 }\n}\npool \"*\" {\n policy \"fifo\" {}\n}\n", string(text))
	pools, err := ParsePools(text, "")
	must.NoError(t, err)
	must.Eq(t, 3, pools["gpu"].Queues["a"].Guarantee)
	must.NotNil(t, pools["gpu"].Tree)
	must.Eq(t, "fifo", pools[AnyPool].Policy)

	pools, err = ParsePools(nil, "")
	must.NoError(t, err)
	must.Eq(t, "kolo", pools[AnyPool].Policy)
}

func TestParsePools_Mistakes(t *testing.T) {
	for src, want := range map[string]string{
		"nomad {}":                             "pools:1: Unsupported block type",
		"pool {}":                              "pools:1: Missing node pool for pool",
		"pool \"a\"":                           "pools:1: Invalid block definition",
		"pool \"a\" {\n policy \"mine\" {}\n}": "pools:2: Unknown policy",
		"pool \"a\" {\n queue \"b\" {\n  weight = 0\n }\n}":        "pools:3: Wrong value for weight",
		"pool \"a\" {\n queue \"b\" { weight = 1 }\n share = 1\n}": "pools:3: Wrong value for share",
	} {
		_, err := ParsePools([]byte(src), "")
		must.ErrorContains(t, err, want)
	}
}

func FuzzParsePools(f *testing.F) {
	f.Add(divided)
	f.Add("pool \"a\" {\n share = \"namespaces\"\n}")
	f.Fuzz(func(t *testing.T, src string) {
		pools, err := ParsePools([]byte(src), "")
		if (pools == nil) == (err == nil) {
			t.Fatalf("%q: pools %v with error %v", src, pools, err)
		}
	})
}
