// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package licenses_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/licenses"
)

func module(t *testing.T, path string, files map[string]string) licenses.Module {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return licenses.Module{Path: path, Version: "v1.0.0", Dir: dir}
}

// A licence that two modules share is printed once, and notices go with it.
func TestText(t *testing.T) {
	text, err := licenses.Text([]licenses.Module{
		module(t, "example.test/z", map[string]string{"LICENSE": "MIT\r\n\r\n"}),
		module(t, "example.test/a", map[string]string{"LICENSE.txt": "\nMIT\n", "NOTICE": "of a", "license.go": "package a", "README.md": "no"}),
	})
	must.NoError(t, err)
	line := "================================================================================\n"
	must.Eq(t, line+"example.test/a v1.0.0\nexample.test/z v1.0.0\n"+line+"\nMIT\n\n"+line+"example.test/a v1.0.0\n"+line+"\nof a\n\n", text)
}

func TestText_Without(t *testing.T) {
	_, err := licenses.Text([]licenses.Module{module(t, "example.test/none", map[string]string{"README.md": "no"})})
	must.ErrorIs(t, err, licenses.ErrNone)
	must.ErrorContains(t, err, "module example.test/none v1.0.0: has no licence file")
}
