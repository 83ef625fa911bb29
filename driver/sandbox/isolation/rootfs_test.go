// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestLinksOfTheRootAreBounded(t *testing.T) {
	r := Rootfs{Root: t.TempDir(), Layout: Layout{TaskDir: t.TempDir()}}
	for i := range maxLinks + 1 {
		must.NoError(t, os.WriteFile(filepath.Join(r.TaskDir, strconv.Itoa(i)), nil, 0o644))
	}
	must.ErrorContains(t, r.link(nil, nil), "put an artifact's files into a directory")
}

func TestHostLinks(t *testing.T) {
	target, err := os.Readlink("/etc/localtime")
	if err != nil {
		t.Skip("/etc/localtime is no link here")
	}
	must.Eq(t, map[string]string{"/etc/localtime": target}, hostLinks([]string{"/usr", "/etc/localtime", "/etc/passwd"}))
	must.MapEmpty(t, hostLinks([]string{"/etc/localtime"}), must.Sprint("a link to what the task does not see is bound"))
}

// TestBindPathsAreDocumented compares the list with the one in docs/reference/driver.md.
func TestBindPathsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/driver.md")
	must.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n### What an isolated task sees of the client\n")
	must.True(t, found)
	section, _, found = strings.Cut(section, "\nThe rest of `/etc`")
	must.True(t, found)
	documented := map[string]bool{}
	for i, word := range strings.Split(section, "`") {
		if i%2 == 1 && strings.HasPrefix(word, "/") {
			documented[word] = true
		}
	}
	for _, path := range DefaultBindPaths {
		if !documented[path] {
			t.Errorf("docs/reference/driver.md does not say that tasks see %s", path)
		}
		delete(documented, path)
	}
	for path := range documented {
		if !strings.HasSuffix(path, "/private") {
			t.Errorf("docs/reference/driver.md says that tasks see %s, which they do not", path)
		}
	}
}
