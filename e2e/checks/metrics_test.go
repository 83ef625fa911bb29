// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"
)

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")

// A Prometheus that scrapes all three programs has one type for each name. (Each
// program's own tests compare its metrics with the reference.)
func TestMetricNamesAreOfOneProgram(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	must.NoError(t, err)
	seen := map[string]bool{}
	for _, row := range metricRow.FindAllSubmatch(reference, -1) {
		name := string(row[1])
		must.False(t, seen[name], must.Sprintf("%s is in two tables", name))
		seen[name] = true
	}
	must.Greater(t, 40, len(seen))
}
