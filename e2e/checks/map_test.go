// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"os/exec"
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

// imports returns what each package of the module imports of it.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "e2e,gpu", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	must.NoError(t, err)
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		var own []string
		for _, path := range strings.Fields(line) {
			if name, ok := strings.CutPrefix(path, self); ok {
				own = append(own, name)
			}
		}
		all[own[0]] = own[1:]
	}
	return all
}

// The map in CONTRIBUTING.md names every package once, and a package imports
// only packages above it: those of a program only packages of that program.
func TestPackageMap(t *testing.T) {
	all := imports(t)
	above := map[string]string{} // name → wing
	for _, p := range packageMap(t) {
		uses, exists := all[p.name]
		if !exists {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist", p.name)
			continue
		}
		if _, twice := above[p.name]; twice {
			t.Errorf("CONTRIBUTING.md names %s twice", p.name)
		}
		if dir, _, _ := strings.Cut(p.name, "/"); p.wing != across && p.wing != dir {
			t.Errorf("CONTRIBUTING.md names %s under %q", p.name, p.wing)
		}
		for _, used := range uses {
			wing, listed := above[used]
			switch {
			case !listed:
				t.Errorf("%s imports %s, which is not above it in CONTRIBUTING.md", p.name, used)
			case p.wing != across && wing != p.wing:
				t.Errorf("%s imports %s, of another program", p.name, used)
			}
		}
		above[p.name] = p.wing
	}
	for name := range all {
		if _, listed := above[name]; !listed {
			t.Errorf("CONTRIBUTING.md does not name %s", name)
		}
	}
}
