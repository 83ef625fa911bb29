// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package frameworks

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// A way is a way to train with the same script, with a number of processes that changes.
type way struct {
	name string
	// start trains with one process. The function that it returns changes their number.
	start func(context.Context, *testing.T, framework) (run, func(processes int))
}

var ways = []way{
	{"torchrun", torchrun},
	{"restart", func(ctx context.Context, t *testing.T, f framework) (run, func(int)) {
		r := f.added(ctx, t, 1)
		return r, r.hosts
	}},
	{"restart, as it is", func(ctx context.Context, t *testing.T, f framework) (run, func(int)) {
		r := f.asItIs(ctx, t)
		return r, r.hosts
	}},
	{"in process", func(ctx context.Context, t *testing.T, f framework) (run, func(int)) {
		r := start(ctx, t, 1, f.name+"_train.py", "", nil, []string{"in process"})
		return r, r.hosts
	}},
}

// torchrun trains with torchrun on one node, with what the docs add, so that the script writes
// a checkpoint when it is asked. torchrun has a fixed number of processes. To change it, an
// operator asks all processes for a checkpoint, and starts torchrun again when they have ended.
func torchrun(ctx context.Context, t *testing.T, f framework) (run, func(int)) {
	t.Helper()
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	r := run{t: t, dir: t.TempDir()}
	r.write("page.py", block(t, "def time_to_end():")+block(t, f.block))
	printed := &output{}
	var cmd *exec.Cmd
	begin := func(processes int) {
		cmd = exec.CommandContext(ctx, python(t), "-m", "torch.distributed.run", "--standalone", fmt.Sprintf("--nproc-per-node=%d", processes),
			"--monitor-interval=0.1", "--max-restarts=1000", filepath.Join(root, "e2e", "train", "frameworks", f.name+"_train.py"), "added")
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "OMP_NUM_THREADS=1", "PYTHONPATH="+r.dir)
		cmd.Stdout, cmd.Stderr = printed, printed
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		must.NoError(t, cmd.Start())
	}
	begin(1)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was interrupted
		if t.Failed() {
			t.Logf("%s", printed.text.Bytes())
		}
	})
	return r, func(processes int) {
		t.Helper()
		record, err := train.Read(filepath.Join(r.dir, "records"))
		must.NoError(t, err)
		for rank := range record.Last().Size {
			pids := record.PIDs(rank)
			must.NoError(t, syscall.Kill(pids[len(pids)-1], syscall.SIGUSR1))
		}
		must.NoError(t, cmd.Wait())
		begin(processes)
	}
}

// patience is how long a training may take to go on after a change. On a busy machine,
// processes that torchrun has started again may wait for each other in Gloo until its timeout.
const patience = 5 * time.Minute

// A change is made to a training of each way, one after the other.
type change struct {
	name  string
	size  int // number of processes after it
	kills bool
	again int // steps that may be repeated in process
}

var changes = []change{{"1→2", 2, false, 0}, {"SIGKILL of one of two", 2, true, 1}, {"2→1", 1, false, 0}}

// made waits until processes of this number have made ten steps after a time, and returns
// everything that was recorded.
func (r run) made(ctx context.Context, processes int, since time.Time) (train.Record, error) {
	var record train.Record
	err := cluster.Until(ctx, fmt.Sprintf("ten steps of %d processes", processes), func(context.Context) error {
		var err error
		if record, err = train.Read(filepath.Join(r.dir, "records")); err != nil {
			return err
		}
		return record.CheckSize(processes, since)
	})
	return record, err
}

// lose kills the process of rank 1 between two periodic checkpoints, and returns when.
func (r run) lose(ctx context.Context) time.Time {
	r.t.Helper()
	must.NoError(r.t, cluster.Until(ctx, "steps after a checkpoint", func(context.Context) error {
		record, err := train.Read(filepath.Join(r.dir, "records"))
		if err != nil {
			return err
		}
		if past := record.Last().Step % every; past < 5 || past > every-15 { // not while the next checkpoint is being written
			return fmt.Errorf("step %d", record.Last().Step)
		}
		ranks := record.PIDs(1)
		return syscall.Kill(ranks[len(ranks)-1], syscall.SIGKILL)
	}))
	return time.Now()
}

// The test measures, alternating in one run, what changes cost the same script under torchrun,
// with restarts by Kolo, and in process. It prints a table. In process no step is repeated, except
// for at most one after a SIGKILL. KOLO_E2E_ROUNDS is the number of rounds.
func TestPauses(t *testing.T) {
	rounds, _ := strconv.Atoi(cmp.Or(os.Getenv("KOLO_E2E_ROUNDS"), "1"))
	for _, f := range frameworks {
		if !slices.Contains([]string{"lightning", "transformers", "accelerate"}, f.name) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(40*rounds)*time.Minute)
			defer cancel()
			found := costs{}
			began := load(t)
			for round := range rounds {
				for _, w := range ways {
					t.Run(fmt.Sprintf("%s %d", w.name, round+1), func(t *testing.T) {
						w.measure(ctx, t, f, found)
					})
				}
			}
			t.Logf("load %s at first, %s in the end\n%s", began, load(t), found.table(f.name))
		})
	}
}

// measure makes all changes to a training, and adds what they cost.
func (w way) measure(ctx context.Context, t *testing.T, f framework, found costs) {
	t.Helper()
	r, resize := w.start(ctx, t, f)
	_, err := r.made(ctx, 1, time.Time{})
	must.NoError(t, err)
	for _, c := range changes {
		since := time.Now()
		if c.kills {
			since = r.lose(ctx)
		} else {
			resize(c.size)
		}
		within, cancel := context.WithTimeout(ctx, patience)
		record, err := r.made(within, c.size, since)
		cancel()
		if err != nil && w.name == "torchrun" {
			t.Logf("%s: torchrun did not go on within %s: %v", c.name, patience, err)
			return
		}
		must.NoError(t, err)
		paid := costOf(record, since)
		t.Logf("%s: %s", c.name, paid)
		found.add(c.name, w.name, paid)
		if w.name == "in process" {
			must.LessEq(t, c.again, paid.again, must.Sprint("steps again"))
			must.Eq(t, []int{0, 0}, []int{paid.twice, paid.never}, must.Sprint("samples used twice, never"))
		}
	}
}

// load returns the load of the machine in the last minute.
func load(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	must.NoError(t, err)
	return strings.Fields(string(text))[0]
}
