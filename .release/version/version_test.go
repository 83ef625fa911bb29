// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package version_test

import (
	"os/exec"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/version"
)

func TestDescribe(t *testing.T) {
	for out, want := range map[string]string{
		"v0.2.0-0-g0a1b2c3\n":          "0.2.0",
		"v0.2.0-rc.1-0-g0a1b2c3":       "0.2.0-rc.1",
		"v0.2.0-7-g0a1b2c3":            "0.2.1-dev.7",
		"v0.2.9-7-g0a1b2c3-dirty":      "0.2.10-dev.7.dirty",
		"v0.2.0-0-g0a1b2c3-dirty":      "0.2.1-dev.0.dirty",
		"v0.2.0-rc.1-7-g0a1b2c3":       "0.2.0-rc.1.dev.7",
		"v0.2.0-rc.1-0-g0a1b2c3-dirty": "0.2.0-rc.1.dev.0.dirty",
	} {
		v, err := version.Describe(out)
		must.NoError(t, err)
		must.Eq(t, version.Version(want), v)
	}
	for out, want := range map[string]string{
		"":                        `printed "": want <tag>-<commits>-g<commit>`,
		"v0.2-0-g0a1b2c3":         "the tag v0.2 is no version: name it v1.2.3 or v1.2.3-rc.1",
		"v0.2.0+linux-0-g0a1b2c3": "the tag v0.2.0+linux is no version",
		"v0.02.0-0-g0a1b2c3":      "the tag v0.02.0 is no version",
	} {
		_, err := version.Describe(out)
		must.ErrorContains(t, err, want)
	}
}

func TestFromCommits(t *testing.T) {
	must.Eq(t, "0.1.0-dev.41", version.FromCommits(41, false))
	must.Eq(t, "0.1.0-dev.41.dirty", version.FromCommits(41, true))
}

// The versions of packages are in the order of the builds, by dpkg's own rules.
func TestPackage_Order(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("no dpkg here")
	}
	ordered := []version.Version{"0.1.0-dev.41", "0.2.0-rc.1", "0.2.0-rc.1.dev.7", "0.2.0-rc.2", "0.2.0", "0.2.1-dev.7", "0.2.1-dev.12", "0.2.1", "0.10.0"}
	for i, v := range ordered[1:] {
		less := ordered[i]
		must.NoError(t, exec.CommandContext(t.Context(), dpkg, "--compare-versions", less.Package(), "lt", v.Package()).Run(), must.Sprintf("%s < %s", less, v))
	}
}
