// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
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

// portingScripts are the two scripts of a page of docs/howto, before and after.
func portingScripts(t *testing.T, page string) (plain, elastic string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs/howto", page))
	must.NoError(t, err)
	blocks := pythonBlock.FindAllSubmatch(text, -1)
	must.Len(t, 2, blocks)
	return string(blocks[0][1]), string(blocks[1][1])
}

// runScript runs a script in dir, and returns what it printed.
func runScript(ctx context.Context, t *testing.T, dir, script string, command ...string) string {
	t.Helper()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte(script), 0o600))
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "train.py")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root(t), "python"))
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	return string(out)
}

// Both scripts in docs/howto/write-an-elastic-script.md run as they stand, and the elastic one goes
// on from its checkpoint.
func TestPortingScripts(t *testing.T) {
	ctx := testContext(t, 3*time.Minute)
	plain, elastic := portingScripts(t, "write-an-elastic-script.md")
	dir := t.TempDir()
	run := func(script string) string {
		return runScript(ctx, t, dir, script, filepath.Join(root(t), "bin", "nomad-driver-horovod"), "run", "-np", "2", "--min-np", "1",
			"--host-discovery-script", "echo localhost:2", "--", python(t))
	}
	must.StrContains(t, run(plain), "epoch 9, 2 ranks")
	must.StrContains(t, run(elastic), "epoch 0, 2 ranks")
	longer := run(strings.Replace(elastic, "state.epoch < 10", "state.epoch < 12", 1))
	must.StrNotContains(t, longer, "epoch 9,")
	must.StrContains(t, longer, "epoch 10, 2 ranks")
	must.StrContains(t, longer, "epoch 11, 2 ranks")
}

// The same for docs/howto/write-an-elastic-pytorch-script.md, whose elastic script
// also trains without Kolo.
func TestPortingScripts_PyTorch(t *testing.T) {
	if _, err := os.Stat(torchPython(t)); err != nil {
		t.Skip("needs bin/torch: make torch")
	}
	ctx := testContext(t, 3*time.Minute)
	plain, elastic := portingScripts(t, "write-an-elastic-pytorch-script.md")
	dir := t.TempDir()
	// One process of torchrun's, without torchrun, which Debian's build of PyTorch cannot run on a TCP store.
	alone := []string{"env", "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=0", "USE_LIBUV=0", torchPython(t)}
	must.StrContains(t, runScript(ctx, t, dir, plain, alone...), "epoch 9, 1 ranks")
	run := func(script string) string {
		return runScript(ctx, t, dir, script, filepath.Join(root(t), "bin", "nomad-driver-torch"), "run", "-np", "2", "--", torchPython(t))
	}
	must.StrContains(t, run(elastic), "epoch 0, 2 ranks")
	longer := run(strings.Replace(elastic, "state.epochs(10)", "state.epochs(12)", 1))
	must.StrNotContains(t, longer, "epoch 9,")
	must.StrContains(t, longer, "epoch 11, 2 ranks")
	must.StrContains(t, runScript(ctx, t, t.TempDir(), elastic, torchPython(t)), "epoch 9, 1 ranks")
}
