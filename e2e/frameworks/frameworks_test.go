// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package frameworks

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

const page = "../../docs/howto/run-a-torchrun-script.md"

var pythonBlock = regexp.MustCompile("(?ms)^```python\n(.*?)^```$")

// block is the one block of the page that has the text.
func block(t *testing.T, text string) string {
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

// python is the interpreter that has the frameworks.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KOLO_E2E_FRAMEWORKS")
	if path == "" {
		t.Skip("needs the newest releases of the frameworks, and minutes: make frameworks")
	}
	return path
}

// extensions is the variable that keeps what DeepSpeed compiles next to the frameworks.
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
	t   *testing.T
	dir string
}

// start trains with a script of e2e/train/frameworks, on one host.
func start(ctx context.Context, t *testing.T, script, code string, flags, args []string) run {
	t.Helper()
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	r := run{t: t, dir: t.TempDir()}
	r.write("page.py", code)
	r.write("hosts.sh", "#!/bin/sh\ncat "+filepath.Join(r.dir, "hosts")+"\n")
	must.NoError(t, os.Chmod(filepath.Join(r.dir, "hosts.sh"), 0o700))
	r.hosts(1)
	command := append([]string{"run", "-np", "1", "--min-np", "1", "--max-np", "2", "--host-discovery-script", "./hosts.sh"}, flags...)
	command = append(command, "--", python(t), "-m", "kolo.launch", filepath.Join(root, "e2e", "train", "frameworks", script))
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "nomad-driver-torch"), append(command, args...)...)
	cmd.Dir = r.dir
	// What is imported of the page is in the directory of the training.
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "PYTHONPATH="+filepath.Join(root, "python")+":"+r.dir, extensions(t))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	must.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was interrupted
		if t.Failed() {
			t.Logf("%s", output.Bytes())
		}
	})
	return r
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

// wait waits until the n-th ring has made ten steps, and returns the steps of all rings.
func (r run) wait(ctx context.Context, rings int) train.Record {
	r.t.Helper()
	var steps train.Record
	must.NoError(r.t, cluster.Until(ctx, fmt.Sprintf("ten steps of ring %d", rings), func(context.Context) error {
		record, err := train.Read(filepath.Join(r.dir, "records"))
		if err != nil {
			return err
		}
		steps = record.Leading()
		ring := steps.PIDs(0)
		made := 0
		if n := len(ring); n > 0 {
			made = len(steps.Where("step", func(e train.Event) bool { return e.PID == ring[n-1] }))
		}
		if len(ring) != rings || made < 10 {
			return fmt.Errorf("%d steps in ring %d", made, len(ring))
		}
		return nil
	}))
	return steps
}

// resize changes the number of hosts from 1 to 2 and back, and returns all steps.
func (r run) resize(ctx context.Context) train.Record {
	r.wait(ctx, 1)
	r.hosts(2)
	r.wait(ctx, 2)
	r.hosts(1)
	steps := r.wait(ctx, 3)
	for _, z := range steps.Resizes() {
		r.t.Logf("%d→%d: gap %s, step %d to %d", z.From, z.To, z.Gap().Round(10*time.Millisecond), z.Before.Step, z.After.Step)
	}
	return steps
}

// checkWeights fails the test if training began again with new weights, where the script
// records its loss.
func checkWeights(t *testing.T, steps train.Record) {
	t.Helper()
	for _, z := range steps.Resizes() {
		must.LessEq(t, steps[0].Loss/2, z.After.Loss, must.Sprintf("loss of step %d, the first after a change; it was %v at the start", z.After.Step, steps[0].Loss))
	}
}

// Each framework as it is, and with what the page adds to it. Steps are made again only as
// it is, which is why the page adds anything.
func TestFrameworks(t *testing.T) {
	added := []string{"-checkpoint-signal", "SIGUSR1"}
	for _, c := range []struct {
		name, mode, block string
		flags, args       []string
	}{
		{"lightning", "as it is", "", nil, nil},
		{"lightning", "added", "import os, sys, lightning", added, nil},
		{"transformers", "as it is", "", nil, nil},
		{"transformers", "added", "import TrainerCallback", added, nil},
		{"accelerate", "as it is", "", nil, nil},
		{"accelerate", "added", "def end_step(accelerator,", added, nil},
		{"deepspeed", "as it is", "", nil, []string{"zero0"}},
		{"deepspeed", "added", "def end_step(engine,", added, []string{"zero0"}},
		{"deepspeed", "added", "def end_step(engine,", added, []string{"zero2"}},
	} {
		t.Run(strings.Join(append([]string{c.name, c.mode}, c.args...), " "), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			if c.name == "deepspeed" {
				compileDeepSpeed(ctx, t)
			}
			code := ""
			if c.block != "" {
				code = block(t, "def time_to_end():") + block(t, c.block)
			}
			steps := start(ctx, t, c.name+"_train.py", code, c.flags, append([]string{c.mode}, c.args...)).resize(ctx)
			checkWeights(t, steps)
			err := steps.CheckConsecutive()
			if c.block != "" {
				must.NoError(t, err)
			} else {
				must.Error(t, err, must.Sprint("no step is made again: the page is to say so"))
			}
		})
	}
}
