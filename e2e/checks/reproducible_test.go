// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// repository commits all files of a directory.
func repository(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"},
		{"-c", "user.name=test", "-c", "user.email=test@example.test", "commit", "--quiet", "--message", "all"}} {
		_, err := git(t.Context(), dir, args...)
		must.NoError(t, err)
	}
}

// TestCopyTree also copies uncommitted changes.
func TestCopyTree(t *testing.T) {
	from := module(t, map[string]string{"same": "1", "changed": "1", "gone": "1"})
	repository(t, from)
	must.NoError(t, os.WriteFile(filepath.Join(from, "changed"), []byte("2"), 0o644))
	must.NoError(t, os.WriteFile(filepath.Join(from, "new"), []byte("2"), 0o755))
	must.NoError(t, os.Remove(filepath.Join(from, "gone")))
	to := filepath.Join(t.TempDir(), "deep", "er")
	must.NoError(t, copyTree(t.Context(), from, to))
	status := func(dir string) string {
		out, err := git(t.Context(), dir, "status", "--porcelain")
		must.NoError(t, err)
		return out
	}
	must.Eq(t, " M changed\n D gone\n?? new\n", status(from))
	must.Eq(t, status(from), status(to))
	text, err := os.ReadFile(filepath.Join(to, "changed"))
	must.NoError(t, err)
	must.Eq(t, "2", string(text))
}

// TestReproducible builds a program that contains its path unless -trimpath is set.
// Both builds use the usual build cache, so that the test need not compile the
// runtime.
func TestReproducible(t *testing.T) {
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	must.NoError(t, err)
	for name, tc := range map[string]struct {
		flags []string
		want  string
	}{
		"without the path": {flags: []string{"-trimpath"}},
		"with the path":    {want: "not the same when built twice: cmd/program"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, map[string]string{"cmd/program/main.go": "package main\n\nfunc main() { panic(\"here\") }\n"})
			repository(t, dir)
			var out strings.Builder
			r := rebuild{flags: tc.flags, programs: []string{"cmd/program"}, again: strings.TrimSpace(string(cache))}
			err := r.run(t.Context(), &out, dir, t.TempDir())
			if tc.want == "" {
				must.NoError(t, err)
				must.StrContains(t, out.String(), "  program\n")
				return
			}
			must.ErrorContains(t, err, tc.want)
			must.StrContains(t, out.String(), "built again elsewhere")
		})
	}
}
