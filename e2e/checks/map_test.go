// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const (
	root = "../.."
	self = "github.com/kolo-nomad/kolo/"
)

// across is the heading of the packages that are part of no program.
const across = "Across"

// mapped is a package in the map of CONTRIBUTING.md.
type mapped struct{ wing, name string }

var mapLine = regexp.MustCompile("^(?:### (.+)|\\| `([^`]+)` \\| .+ \\|)$")

// packageMap reads the map, in its order.
func packageMap(t *testing.T) []mapped {
	t.Helper()
	text, err := os.ReadFile(root + "/CONTRIBUTING.md")
	must.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Map of the packages\n")
	must.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var wing string
	var packages []mapped
	for line := range strings.Lines(section) {
		switch m := mapLine.FindStringSubmatch(strings.TrimSpace(line)); {
		case m == nil:
		case m[1] != "":
			wing = m[1]
		default:
			packages = append(packages, mapped{wing, m[2]})
		}
	}
	return packages
}

// The map in CONTRIBUTING.md names every package once, and a package imports
// only packages above it.
func TestPackageMap(t *testing.T) {
	all := packages(t)
	above := map[string]bool{}
	for _, p := range packageMap(t) {
		pkg, exists := all[p.name]
		if !exists {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist", p.name)
			continue
		}
		if above[p.name] {
			t.Errorf("CONTRIBUTING.md names %s twice", p.name)
		}
		if dir, _, _ := strings.Cut(p.name, "/"); p.wing != across && p.wing != dir {
			t.Errorf("CONTRIBUTING.md names %s under %q", p.name, p.wing)
		}
		for _, used := range own(pkg.Imports) {
			if !above[used] {
				t.Errorf("%s imports %s, which is not above it in CONTRIBUTING.md", p.name, used)
			}
		}
		above[p.name] = true
	}
	for name := range all {
		if !above[name] {
			t.Errorf("CONTRIBUTING.md does not name %s", name)
		}
	}
}
