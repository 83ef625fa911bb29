// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package entrypoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

func TestMemoryLimit(t *testing.T) {
	const v1, v2 = "memory/memory.limit_in_bytes", "memory.max"
	for name, c := range map[string]struct {
		file, text string
		want       int64
	}{
		"version 2":           {v2, "536870912\n", 512 << 20},
		"version 2, no limit": {v2, "max\n", 0},
		"version 1":           {v1, "536870912\n", 512 << 20},
		"version 1, no limit": {v1, "9223372036854771712\n", 0},
		"no cgroups":          {"other", "1\n", 0},
	} {
		dir := t.TempDir()
		must.NoError(t, os.MkdirAll(filepath.Join(dir, "memory"), 0o755))
		must.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644))
		must.Eq(t, c.want, memoryLimit(dir), must.Sprint(name))
	}
}
