// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
)

// TestAgentFilesAreNotWrittenThroughLinks has a task that, before its restart,
// leaves links where the driver will write as root.
func TestAgentFilesAreNotWrittenThroughLinks(t *testing.T) {
	self := account.Account{UID: os.Geteuid(), GID: os.Getegid()}
	outside := filepath.Join(t.TempDir(), "passwd")
	must.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
	task := func() string {
		dir := t.TempDir()
		must.NoError(t, os.MkdirAll(filepath.Join(dir, "secrets"), 0o755))
		must.NoError(t, os.MkdirAll(filepath.Join(dir, agentDir), 0o755))
		return dir
	}

	dir := task()
	for _, path := range []string{configPath, eventPath} {
		must.NoError(t, os.Symlink(outside, filepath.Join(dir, path)))
	}
	must.NoError(t, writeAgentFiles(&plan{}, dir, dir, self))
	for _, path := range []string{configPath, eventPath} {
		fi, err := os.Lstat(filepath.Join(dir, path))
		must.NoError(t, err)
		must.True(t, fi.Mode().IsRegular(), must.Sprint(path))
	}

	dir = task()
	must.NoError(t, os.Remove(filepath.Join(dir, agentDir)))
	must.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, agentDir)))
	must.Error(t, writeAgentFiles(&plan{}, dir, dir, self))

	left, err := os.ReadDir(filepath.Dir(outside))
	must.NoError(t, err)
	must.Len(t, 1, left)
	data, err := os.ReadFile(outside)
	must.NoError(t, err)
	must.Eq(t, "precious", string(data))
}

func TestTokensGoToFiles(t *testing.T) {
	self := account.Account{UID: os.Geteuid(), GID: os.Getegid()}
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o755))
	must.NoError(t, writeAgentFiles(&plan{tokens: map[string]string{"kolo_nomad_token": "ey"}}, dir, "/", self))
	fi, err := os.Stat(filepath.Join(dir, "secrets/kolo_nomad_token"))
	must.NoError(t, err)
	must.Eq(t, fs.FileMode(0o600), fi.Mode().Perm())
}
