// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const (
	root = "../.."
	self = "github.com/kolo-nomad/kolo/"
)

var update = flag.Bool("update", false, "write the map of the packages in CONTRIBUTING.md")

// across is the heading of the packages that are part of no program.
const across = "across"

// mapTable is one wing of the map: its heading, what is said about it, and its table.
var mapTable = regexp.MustCompile(`(?m)^### (\w+)\n(?:[^#|]*\n)?\| package \| what it is \|\n\|---\|---\|\n((?:\|.*\n)*)`)

// packageMap returns the rows of one wing of the map: a package's path, and the
// first sentence of its package comment.
func packageMap(all map[string]listed, wing string) string {
	wings := []string{"driver", "device", "autoscaler"}
	var rows strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		dir, _, _ := strings.Cut(name, "/")
		if dir != wing && (wing != across || slices.Contains(wings, dir)) {
			continue
		}
		doc := strings.TrimSuffix(strings.TrimSuffix(all[name].Doc, "."), ":")
		if words := strings.SplitN(doc, " ", 3); words[0] == "Package" && len(words) == 3 {
			doc = words[2]
		}
		fmt.Fprintf(&rows, "| `%s` | %s |\n", name, strings.ReplaceAll(doc, "|", `\|`))
	}
	return rows.String()
}

// The map in CONTRIBUTING.md is generated from the package comments. To write it: go test
// ./e2e/checks -run PackageMap -update
func TestPackageMap(t *testing.T) {
	all := packages(t)
	for name, pkg := range all {
		if pkg.Doc == "" {
			t.Errorf("%s has no package comment", name)
		}
	}
	text, err := os.ReadFile(root + "/CONTRIBUTING.md")
	must.NoError(t, err)
	var wings []string
	written := mapTable.ReplaceAllStringFunc(string(text), func(section string) string {
		m := mapTable.FindStringSubmatch(section)
		wings = append(wings, m[1])
		return strings.TrimSuffix(section, m[2]) + packageMap(all, m[1])
	})
	must.Eq(t, []string{"driver", "device", "autoscaler", across}, wings)
	if *update {
		must.NoError(t, os.WriteFile(root+"/CONTRIBUTING.md", []byte(written), 0o644))
		return
	}
	if written != string(text) {
		t.Error("the map of the packages in CONTRIBUTING.md is not what their comments say: go test ./e2e/checks -run PackageMap -update")
	}
}

// A reader meets at most a dozen folders at a time.
func TestFoldersSideBySide(t *testing.T) {
	const most = 12
	folders := map[string]map[string]bool{}
	for name := range packages(t) {
		parts := strings.Split(name, "/")
		for i := 1; i < len(parts); i++ {
			dir := strings.Join(parts[:i], "/")
			if folders[dir] == nil {
				folders[dir] = map[string]bool{}
			}
			folders[dir][parts[i]] = true
		}
	}
	for dir, names := range folders {
		if len(names) > most {
			t.Errorf("%s has %d folders side by side, of at most %d", dir, len(names), most)
		}
	}
}
