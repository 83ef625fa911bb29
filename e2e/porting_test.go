// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// portingScripts are the two scripts of a page of docs/howto, before and after.
func portingScripts(t *testing.T, page string) (plain, elastic string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs/howto", page))
	must.NoError(t, err)
	var scripts []string
	for _, block := range pythonBlock.FindAllSubmatch(text, -1) {
		if strings.Contains(string(block[1]), "import ") { // others show a line or two
			scripts = append(scripts, string(block[1]))
		}
	}
	must.Len(t, 2, scripts)
	return scripts[0], scripts[1]
}

// runScript runs a script in dir, and returns what it printed. It may take any time in which
// it prints something.
func runScript(t *testing.T, dir, script string, command ...string) string {
	t.Helper()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte(script), 0o600))
	path := filepath.Join(dir, "output")
	output, err := os.Create(path)
	must.NoError(t, err)
	defer output.Close()
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "train.py")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "PYTHONPATH="+filepath.Join(root(t), "python"))
	cmd.Stdout, cmd.Stderr = output, output
	must.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var idle cluster.Idle[int]
	for {
		text, err := os.ReadFile(path)
		must.NoError(t, err)
		select {
		case err := <-ended:
			text, readErr := os.ReadFile(path)
			must.NoError(t, errors.Join(err, readErr), must.Sprint(string(text)))
			return string(text)
		case <-time.After(100 * time.Millisecond):
		}
		must.Less(t, silence, idle.For(len(text), time.Now()), must.Sprintf("nothing more was printed\n%s", text))
	}
}

// Both scripts in docs/howto/write-an-elastic-script.md run unchanged, and the elastic one resumes
// from its checkpoint.
func TestPortingScripts(t *testing.T) {
	plain, elastic := portingScripts(t, "write-an-elastic-script.md")
	dir := t.TempDir()
	run := func(script string) string {
		return runScript(t, dir, script, filepath.Join(root(t), "bin", "nomad-driver-horovod"), "run", "-np", "2", "--min-np", "1",
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
	plain, elastic := portingScripts(t, "write-an-elastic-pytorch-script.md")
	dir := t.TempDir()
	// One process of torchrun's, without torchrun, which Debian's build of PyTorch cannot run on a TCP store.
	alone := []string{"env", "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=0", "USE_LIBUV=0", torchPython(t)}
	must.StrContains(t, runScript(t, dir, plain, alone...), "epoch 9, 1 ranks")
	run := func(script string) string {
		return runScript(t, dir, script, filepath.Join(root(t), "bin", "nomad-driver-torch"), "run", "-np", "2", "--", torchPython(t))
	}
	must.StrContains(t, run(elastic), "epoch 0, 2 ranks")
	longer := run(strings.Replace(elastic, "state.epochs(10)", "state.epochs(12)", 1))
	must.StrNotContains(t, longer, "epoch 9,")
	must.StrContains(t, longer, "epoch 11, 2 ranks")
	must.StrContains(t, runScript(t, t.TempDir(), elastic, torchPython(t)), "epoch 9, 1 ranks")
}

// The loop in README.md trains with a reader's own model, data and step.
func TestReadmeScript(t *testing.T) {
	if _, err := os.Stat(torchPython(t)); err != nil {
		t.Skip("needs bin/torch: make torch")
	}
	text, err := os.ReadFile("../README.md")
	must.NoError(t, err)
	blocks := pythonBlock.FindAllSubmatch(text, -1)
	must.Len(t, 1, blocks)
	script := `
import torch
import kolo.torch as kolo
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(320, 16)
data = TensorDataset(x, x.sum(1, keepdim=True))
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step(ddp, optimizer, x, y):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(ddp(x), y).backward()
    optimizer.step()

` + string(blocks[0][1]) + `
train(state)
loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).item()
print(f"epoch {state.epoch}, learned {loss < 0.1}")
`
	must.StrContains(t, runScript(t, t.TempDir(), script, torchPython(t)), "epoch 30, learned True")
}

var samplerClass = regexp.MustCompile(`(?ms)^class ElasticSampler.*?\n\n`)

// The sampler in docs/howto/write-an-elastic-script.md divides any rest of an epoch among any
// number of ranks. Horovod's does not.
func TestPortingSampler(t *testing.T) {
	_, elastic := portingScripts(t, "write-an-elastic-script.md")
	class := samplerClass.FindString(elastic)
	must.NotEq(t, "", class)
	out, err := exec.CommandContext(t.Context(), python(t), "-c", `
import horovod.torch as hvd
from horovod.torch.elastic import sampler as module
`+class+`
failed = 0
for samples in range(1, 14):
    for used in range(samples + 1):
        for size in range(1, 14):
            module.size, module.rank = lambda: size, lambda: 0
            plain, ours = hvd.elastic.ElasticSampler(range(samples)), ElasticSampler(range(samples))
            plain.load_state_dict({"epoch": 0, "processed_num": used})
            left = set(plain.remaining_indices)
            try:
                iter(plain)
            except AssertionError:
                failed += 1
            given = []
            for rank in range(size):
                module.rank = lambda: rank
                ours.load_state_dict({"epoch": 0, "processed_num": used})
                given.append(list(ours))
            everything = sum(given, [])
            assert {len(indices) for indices in given} == {len(ours)}, given
            assert set(everything) == left and len(everything) - len(left) < size, given
assert failed, "Horovod's own sampler has become able to do this: the class and what the page says of it can go"
`).CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s", out))
}
