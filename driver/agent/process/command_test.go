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
