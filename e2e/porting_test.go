// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

var pythonBlock = regexp.MustCompile("(?s)```python\n(.*?)```")

// Both scripts in docs/howto/write-an-elastic-script.md run as they stand, and the elastic one goes
// on from its checkpoint.
func TestPortingScripts(t *testing.T) {
	ctx := testContext(t, 3*time.Minute)
	text, err := os.ReadFile("../docs/howto/write-an-elastic-script.md")
	must.NoError(t, err)
	blocks := pythonBlock.FindAllSubmatch(text, -1)
	must.Len(t, 2, blocks)
	plain, elastic := string(blocks[0][1]), string(blocks[1][1])
	dir := t.TempDir()
	driver := filepath.Join(root(t), "bin", "nomad-driver-horovod")
	run := func(script string) string {
		t.Helper()
		must.NoError(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte(script), 0o600))
		cmd := exec.CommandContext(ctx, driver, "run", "-np", "2", "--min-np", "1", "--host-discovery-script", "echo localhost:2",
			"--", python(t), "train.py")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
		return string(out)
	}
	must.StrContains(t, run(plain), "epoch 9, 2 ranks")
	must.StrContains(t, run(elastic), "epoch 0, 2 ranks")
	longer := run(strings.Replace(elastic, "state.epoch < 10", "state.epoch < 12", 1))
	must.StrNotContains(t, longer, "epoch 9,")
	must.StrContains(t, longer, "epoch 10, 2 ranks")
	must.StrContains(t, longer, "epoch 11, 2 ranks")
}
