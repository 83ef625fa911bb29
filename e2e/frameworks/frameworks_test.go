// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package frameworks

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

const page = "../../docs/howto/run-a-torchrun-script.md"

// every is the number of steps between periodic checkpoints, as in recorder.py.
const every = 50

var pythonBlock = regexp.MustCompile("(?ms)^```python\n(.*?)^```$")

// block returns the one block of the page that has the text.
func block(t *testing.T, text string) string {
	t.Helper()
	return blockOf(t, page, text)
}

// blockOf returns the one Python block of a page that has the text.
func blockOf(t *testing.T, page, text string) string {
	t.Helper()
	source, err := os.ReadFile(page)
	must.NoError(t, err)
	var found []string
	for _, m := range pythonBlock.FindAllStringSubmatch(string(source), -1) {
		if strings.Contains(m[1], text) {
			found = append(found, m[1])
		}
	}
	must.Len(t, 1, found, must.Sprintf("blocks of %s with %q", page, text))
	return found[0]
}

// python returns the interpreter that has the frameworks.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KOLO_E2E_FRAMEWORKS")
	if path == "" {
		t.Skip("needs the newest releases of the frameworks, and minutes: make frameworks")
	}
	return path
}

// extensions returns the variable that keeps what DeepSpeed compiles next to the frameworks.
func extensions(t *testing.T) string {
	t.Helper()
	return "TORCH_EXTENSIONS_DIR=" + filepath.Join(filepath.Dir(filepath.Dir(python(t))), "torch-extensions")
}

// compileDeepSpeed compiles what DeepSpeed needs on CPUs, unless it is there: minutes. It
// skips the test where that fails.
func compileDeepSpeed(ctx context.Context, t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(ctx, python(t), "../train/frameworks/deepspeed_compile.py")
	cmd.Env = append(os.Environ(), extensions(t))
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("DeepSpeed could not be compiled: %s\n%s", err, output)
	}
}

// A run is a training on this machine, whose hosts change as the test wants it.
type run struct {
	t      *testing.T
	dir    string
	python string // the interpreter; empty: the one with the frameworks
}

// start trains with a script of e2e/train/frameworks on so many hosts, and never on fewer.
func start(ctx context.Context, t *testing.T, hosts int, script, code string, flags, args []string) run {
	t.Helper()
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	r := run{t: t, dir: t.TempDir()}
	r.write("page.py", code)
	r.hosts(hosts)
	np := strconv.Itoa(hosts)
	command := append([]string{"-m", "kolo.launch", filepath.Join(root, "e2e", "train", "frameworks", script)}, args...)
	// What is imported of the page is in the directory of the training.
	r.launch(ctx, append([]string{"-np", np, "--min-np", np, "--max-np", "4"}, flags...), command, ":"+r.dir, extensions(t))
	return r
}

// launch starts to train on the present hosts with a command of Python, until the test
// ends, and returns what is printed. path is added to PYTHONPATH.
func (r run) launch(ctx context.Context, flags, command []string, path string, env ...string) *output {
	t := r.t
	t.Helper()
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	r.write("hosts.sh", "#!/bin/sh\ncat "+filepath.Join(r.dir, "hosts")+"\n")
	must.NoError(t, os.Chmod(filepath.Join(r.dir, "hosts.sh"), 0o700))
	args := append([]string{"run", "--host-discovery-script", "./hosts.sh"}, flags...)
	interpreter := r.python
	if interpreter == "" {
		interpreter = python(t)
	}
	args = append(args, "--", interpreter)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "nomad-driver-torch"), append(args, command...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "PYTHONPATH="+filepath.Join(root, "python")+path)
	cmd.Env = append(cmd.Env, env...)
	printed := &output{}
	cmd.Stdout, cmd.Stderr = printed, printed
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	must.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was interrupted
		if t.Failed() {
			t.Logf("%s", printed.text.Bytes())
		}
	})
	return printed
}

func (r run) write(name, text string) {
	r.t.Helper()
	must.NoError(r.t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

// hosts makes so many hosts of one slot the ones to train on, in one step.
func (r run) hosts(n int) {
	r.t.Helper()
	r.write("hosts.new", hostList(n))
	must.NoError(r.t, os.Rename(filepath.Join(r.dir, "hosts.new"), filepath.Join(r.dir, "hosts")))
}

func hostList(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "h%d:1\n", i+1)
	}
	return list.String()
}

// wait waits until a ring of size that had no step in before has made ten, and returns
// the steps of all rings.
func (r run) wait(ctx context.Context, size int, before train.Record) train.Record {
	r.t.Helper()
	var steps train.Record
	must.NoError(r.t, cluster.Until(ctx, fmt.Sprintf("ten steps of a ring of %d", size), func(context.Context) error {
		record, err := train.Read(filepath.Join(r.dir, "records"))
		if err != nil {
			return err
		}
		steps = record.Leading()
		last := steps.Last()
		made := len(steps.Where("step", func(e train.Event) bool { return e.PID == last.PID }))
		if last.Size != size || made < 10 || slices.Contains(before.PIDs(0), last.PID) {
			return fmt.Errorf("%d steps in a ring of %d", made, last.Size)
		}
		return nil
	}))
	return steps
}

// resize sets the number of hosts to each of sizes in turn, of which start has set the first, and
// returns all steps.
func (r run) resize(ctx context.Context, sizes ...int) train.Record {
	r.t.Helper()
	steps := r.wait(ctx, sizes[0], nil)
	for _, n := range sizes[1:] {
		r.hosts(n)
		steps = r.wait(ctx, n, steps)
	}
	for _, z := range steps.Resizes() {
		r.t.Logf("%d→%d: gap %s, step %d to %d", z.From, z.To, z.Gap().Round(10*time.Millisecond), z.Before.Step, z.After.Step)
		// A script that records its loss shows that the weights were loaded, too.
		must.LessEq(r.t, steps[0].Loss/2, z.After.Loss, must.Sprintf("loss of step %d; it was %v at the start", z.After.Step, steps[0].Loss))
	}
	return steps
}

// kill kills the process of rank 1 some steps after the first periodic checkpoint of its
// ring. It fails the test unless training goes on from that checkpoint.
func (r run) kill(ctx context.Context, size int) {
	r.t.Helper()
	var steps train.Record
	must.NoError(r.t, cluster.Until(ctx, "steps after a checkpoint", func(context.Context) error {
		record, err := train.Read(filepath.Join(r.dir, "records"))
		if err != nil {
			return err
		}
		steps = record.Leading()
		last := steps.Last()
		first := steps.Where("step", func(e train.Event) bool { return e.PID == last.PID })[0]
		// Not while the next checkpoint is being written.
		if past := last.Step % every; last.Step/every == (first.Step-1)/every || past < 5 || past > every-15 {
			return fmt.Errorf("step %d of a ring that began with step %d", last.Step, first.Step)
		}
		ranks := record.PIDs(1)
		return syscall.Kill(ranks[len(ranks)-1], syscall.SIGKILL)
	}))
	after := r.wait(ctx, size, steps)
	i := slices.IndexFunc(after, func(e train.Event) bool { return !slices.Contains(steps.PIDs(0), e.PID) })
	z := train.Resize{Before: after[i-1], After: after[i]}
	r.t.Logf("rank 1 of %d killed: gap %s, step %d to %d", size, z.Gap().Round(10*time.Millisecond), z.Before.Step, z.After.Step)
	checkpoint := steps.Last().Step / every * every
	must.Greater(r.t, checkpoint, z.After.Step, must.Sprintf("the first step, with a checkpoint of step %d", checkpoint))
}

// A framework is trained with its script of e2e/train/frameworks, and with a block of the page.
type framework struct {
	name, block string
	args        []string
}

var frameworks = []framework{
	{"lightning", "import os, sys, lightning", nil},
	{"transformers", "import TrainerCallback", nil},
	{"accelerate", "def end_step(accelerator,", nil},
	{"deepspeed", "def end_step(engine,", []string{"zero0"}},
	{"deepspeed", "def end_step(engine,", []string{"zero2"}},
	{"torchtitan", "class ElasticTrainer", nil},
}

func (f framework) String() string { return strings.Join(append([]string{f.name}, f.args...), " ") }

// asItIs trains without the code that the page adds.
func (f framework) asItIs(ctx context.Context, t *testing.T) run {
	return start(ctx, t, 1, f.name+"_train.py", "", nil, append([]string{"as it is"}, f.args...))
}

// added trains with the code that the page adds.
func (f framework) added(ctx context.Context, t *testing.T, hosts int) run {
	code := block(t, "def time_to_end():") + block(t, f.block)
	return start(ctx, t, hosts, f.name+"_train.py", code, []string{"-checkpoint-signal", "SIGUSR1"}, append([]string{"added"}, f.args...))
}

// each runs a test with each framework.
func each(t *testing.T, test func(context.Context, *testing.T, framework)) {
	for _, f := range frameworks {
		t.Run(f.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			if f.name == "deepspeed" {
				compileDeepSpeed(ctx, t)
			}
			test(ctx, t, f)
		})
	}
}

// Without the code that the page adds, steps are repeated. That is why the page adds it.
func TestAsItIs(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, f framework) {
		if slices.Contains(f.args, "zero2") {
			t.Skip("DeepSpeed refuses the checkpoint of another number of processes, and training ends")
		}
		must.Error(t, f.asItIs(ctx, t).resize(ctx, 1, 2, 1).CheckConsecutive(), must.Sprint("no step is made again: the page is to say so"))
	})
}

// With the code that the page adds, changes cost no step.
func TestChanges(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, f framework) {
		steps := f.added(ctx, t, 1).resize(ctx, 1, 2, 1)
		must.NoError(t, steps.CheckConsecutive())
		must.Len(t, 3, steps.PIDs(0), must.Sprint("rings"))
	})
}

// Several processes join and leave at once. After a failure, training resumes from the newest
// checkpoint. That is a periodic one, although a requested one lies next to it.
func TestFailure(t *testing.T) {
	each(t, func(ctx context.Context, t *testing.T, f framework) {
		r := f.added(ctx, t, 2)
		must.NoError(t, r.resize(ctx, 2, 4, 2).CheckConsecutive())
		r.kill(ctx, 2)
	})
}
