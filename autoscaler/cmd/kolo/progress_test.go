// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// TestProgress_Lines runs a long command whose standard error is not a terminal. Progress
// is printed there line by line: "-json -" writes its report to standard output.
func TestProgress_Lines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	f, err := os.Create(path)
	must.NoError(t, err)
	defer f.Close()
	p := newProgress(f)
	p.start, p.last = p.start.Add(-time.Hour), p.last.Add(-time.Hour)
	p.step(1, 2)
	p.step(2, 2) // too soon for another line
	p.end()
	got, err := os.ReadFile(path)
	must.NoError(t, err)
	must.Eq(t, "1 of 2 runs done, 1h0m0s left\n", string(got))
}
