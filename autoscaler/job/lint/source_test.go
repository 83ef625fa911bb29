// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
)

func TestStepsOf(t *testing.T) {
	for field, want := range map[string][]step{
		"":                                   nil,
		"job":                                {{name: "job"}},
		"config.torch.backend":               {{name: "config"}, {name: "torch"}, {name: "backend"}},
		`group "workers": scaling.sizes[10]`: {{name: "group", label: "workers"}, {name: "scaling"}, {name: "sizes"}},
		`group "a.b": task "c: \"d\"": resources.device "x/y: z"`: {{name: "group", label: "a.b"}, {name: "task", label: `c: "d"`}, {name: "resources"}, {name: "device", label: "x/y: z"}},
		`group "cut…`: {{name: "group"}, {name: `"cut…`}},
	} {
		must.Eq(t, want, stepsOf(field))
	}
}

// A job may name its groups as it likes, and may contain any key.
func FuzzStepsOf(f *testing.F) {
	f.Add("workers", "min")
	f.Add(`a": scaling. "b\`, `: "`)
	f.Add("\xff\n", "[")
	f.Fuzz(func(t *testing.T, label, key string) {
		steps := stepsOf(fmt.Sprintf("group %q: scaling.%s", label, key))
		must.GreaterEq(t, 2, len(steps))
		must.Eq(t, []step{{name: "group", label: label}, {name: "scaling"}}, steps[:2])
	})
}
