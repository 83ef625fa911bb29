// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

func TestLookCommand(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "train"), nil, 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "data"), nil, 0o644))
	for command, want := range map[string]string{
		"sh": "", "./train": "", filepath.Join(dir, "train"): "",
		"no-such-program": "not found", "./missing": "no such file", "./data": "permission denied", dir: "is a directory",
	} {
		err := LookCommand(command, dir)
		if want == "" {
			must.NoError(t, err)
			continue
		}
		must.ErrorContains(t, err, want)
		must.ErrorContains(t, err, command)
	}
	must.Error(t, LookCommand("./train", ""))
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o755))
	must.NoError(t, os.Symlink("file", filepath.Join(dir, "link to file")))
	must.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	must.NoError(t, os.Symlink("/no/such/place", filepath.Join(dir, "link to nothing")))
	for name, want := range map[string]string{
		".": "", "link": "", "file": "not a directory", "link to file": "not a directory", "link to nothing": "no such file", "missing": "no such file",
	} {
		err := CheckDir(filepath.Join(dir, name))
		if want == "" {
			must.NoError(t, err, must.Sprint(name))
			continue
		}
		must.ErrorContains(t, err, want)
		must.ErrorContains(t, err, name)
	}
	must.NoError(t, CheckDir(""))
}
