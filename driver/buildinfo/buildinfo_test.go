// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	goversion "github.com/hashicorp/go-version"
	"github.com/shoenig/test/must"
)

// A release has the linker's values, and a build in a checkout those of Go's build info.
// Any other build has neither.
func TestLine(t *testing.T) {
	checkout := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-20T10:00:00Z"}, {Key: "vcs.modified", Value: modified},
		}}
	}
	end := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	for name, tc := range map[string]struct {
		set  stamp
		info *debug.BuildInfo
		want string
	}{
		"release":             {stamp{"fedcba987654", "2026-11-21T00:00:00Z"}, checkout("true"), "kolo 0.1.0-dev (commit fedcba987654, 2026-11-21T00:00:00Z, " + end},
		"checkout":            {stamp{}, checkout("false"), "kolo 0.1.0-dev (commit 0123456789ab, 2026-11-20T10:00:00Z, " + end},
		"checkout, changed":   {stamp{}, checkout("true"), "kolo 0.1.0-dev (commit 0123456789ab+changes, 2026-11-20T10:00:00Z, " + end},
		"without a checkout":  {stamp{}, &debug.BuildInfo{}, "kolo 0.1.0-dev (" + end},
		"without any":         {stamp{}, nil, "kolo 0.1.0-dev (" + end},
		"release, no modules": {stamp{"fedcba987654", ""}, nil, "kolo 0.1.0-dev (commit fedcba987654, " + end},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.want, line("kolo", tc.set.or(tc.info)))
		})
	}
}

func TestVersion_IsSemantic(t *testing.T) {
	_, err := goversion.NewSemver(Version())
	must.NoError(t, err)
}
