// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// NOTICE names each program that links a module under the Business Source License, and the
// module. The README states the same in a sentence.
func TestBusinessSourceLicense(t *testing.T) {
	notice, err := os.ReadFile(root + "/NOTICE")
	must.NoError(t, err)
	readme, err := os.ReadFile(root + "/README.md")
	must.NoError(t, err)
	programs, err := filepath.Glob(root + "/*/cmd/*/main.go")
	must.NoError(t, err)
	must.Len(t, 4, programs)
	for _, main := range programs {
		dir := filepath.Dir(main)
		modules := restricted(t, dir)
		if filepath.Base(dir) == "kolo-worker" {
			must.SliceEmpty(t, modules)
			continue
		}
		must.Eq(t, []string{"github.com/hashicorp/nomad"}, modules, must.Sprint(dir))
		must.StrContains(t, string(notice), "\n  "+filepath.Base(dir))
	}
	must.StrContains(t, string(readme), "Business Source License 1.1")
}

// restricted returns the modules under the Business Source License that a program links.
func restricted(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", ".")
	cmd.Dir = program
	out, err := cmd.Output()
	must.NoError(t, err)
	var found []string
	for pair := range slices.Chunk(strings.Fields(string(out)), 2) {
		text, err := os.ReadFile(filepath.Join(pair[1], "LICENSE"))
		if err == nil && strings.Contains(string(text), "Business Source License") && !slices.Contains(found, pair[0]) {
			found = append(found, pair[0])
		}
	}
	return found
}
