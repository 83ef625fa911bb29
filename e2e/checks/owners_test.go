// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// The paths in CODEOWNERS exist, so a package that moves keeps its reviewers.
func TestCodeOwners(t *testing.T) {
	text, err := os.ReadFile(root + "/.github/CODEOWNERS")
	must.NoError(t, err)
	rules := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		rules++
		must.Greater(t, 1, len(fields), must.Sprintf("%s has no owner", fields[0]))
		if path, ok := strings.CutPrefix(fields[0], "/"); ok {
			_, err := os.Stat(filepath.Join(root, path))
			must.NoError(t, err)
		}
	}
	must.Greater(t, 1, rules)
}
