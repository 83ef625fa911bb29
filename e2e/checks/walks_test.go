// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

var (
	walkStop = regexp.MustCompile("`([a-z][a-z0-9_/]+\\.(?:go|py))`(?:\\s+`([^`]+)`)?")
	walkHead = regexp.MustCompile(`(?m)^## `)
)

// The stops of the walks through the code exist: the files, and the names that are declared
// or called in them.
func TestCodeWalks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/explanation/code-walks.md"))
	must.NoError(t, err)
	must.Len(t, 5, walkHead.FindAllString(string(text), -1))
	stops := walkStop.FindAllStringSubmatch(string(text), -1)
	must.Greater(t, 30, len(stops))
	for _, stop := range stops {
		file, err := os.ReadFile(filepath.Join(root, stop[1]))
		if err != nil {
			t.Errorf("a walk stops at %s: %v", stop[1], err)
			continue
		}
		if !strings.Contains(string(file), stop[2]) {
			t.Errorf("a walk stops at %s, which has no %s", stop[1], stop[2])
		}
	}
}
