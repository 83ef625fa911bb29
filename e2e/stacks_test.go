// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// hangingScript hangs in another way on each rank. Ranks 0 and 1 wait for the others.
const hangingScript = `
import collections, fcntl, itertools, os, signal, sys, time
import torch
import kolo.torch as kolo

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        time.sleep(3600)

def load():
    next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1)))

def stop():
    os.kill(os.getpid(), signal.SIGSTOP)

def spin():
    collections.deque(itertools.repeat(1), maxlen=0)  # native code that holds the GIL

def lock():
    with open(sys.argv[1]) as f:
        fcntl.flock(f, fcntl.LOCK_EX)

def wait():
    torch.distributed.all_reduce(torch.ones(1))

@kolo.elastic
def train(state):
    if kolo.size() == 6:
        [wait, wait, load, stop, spin, lock][kolo.rank()]()
    while True:
        state.commit()
        time.sleep(0.1)

train(kolo.State(model=torch.nn.Linear(1, 1), step=0))
`

// seenRank is the part of kolo stacks -o=json that the test reads.
type seenRank struct {
	Rank    int
	State   string
	Syscall string
	Missing string
	Threads []struct {
		Main   bool
		Frames []struct{ Function string }
	}
	Workers []seenRank
}

// calls returns the functions of the main thread.
func (r *seenRank) calls() string {
	for _, thread := range r.Threads {
		var names []string
		for _, f := range thread.Frames {
			names = append(names, f.Function)
		}
		if thread.Main {
			return strings.Join(names, " ")
		}
	}
	return ""
}

// Each rank that hangs is named, with what it does, within the time of the command.
func TestStacks(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	c := startTorchCluster(t)
	dir := t.TempDir()
	must.NoError(t, os.Chmod(dir, 0o755))
	must.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	script, locked := filepath.Join(dir, "hang.py"), filepath.Join(dir, "locked")
	must.NoError(t, os.WriteFile(script, []byte(hangingScript), 0o644))
	f, err := os.Create(locked)
	must.NoError(t, err)
	defer f.Close()
	must.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	tr := startTorch(ctx, t, c, trainingOptions{count: 2, vars: cluster.Vars{"script": script}, config: map[string]any{"np": 6, "min_np": 6, "max_np": 6, "slots": 3},
		edit: func(job *api.Job) { job.TaskGroups[0].Tasks[0].Config["args"] = []any{script, locked} }})

	type answer struct {
		Groups []struct {
			Suspect bool
			Ranks   []seenRank
		}
		Unanswered []any
	}
	var job answer
	must.NoError(t, cluster.Until(ctx, "every rank to be where it hangs", func(ctx context.Context) error {
		out, err := tr.stacks(ctx, "-o=json")
		if err != nil {
			return err
		}
		job = answer{}
		if err := json.Unmarshal(out, &job); err != nil {
			return err
		}
		at := map[int]string{}
		for _, g := range job.Groups {
			for _, r := range g.Ranks {
				at[r.Rank] = fmt.Sprintf("%s: %s", r.State, r.calls())
				for _, w := range r.Workers {
					at[r.Rank] += " and in a worker " + w.calls()
				}
			}
		}
		for rank, want := range []string{"all_reduce", "all_reduce", "__getitem__", "stopped", "running: spin", "lock"} {
			if !strings.Contains(at[rank], want) {
				return fmt.Errorf("rank %d is not at %s; all are at %v", rank, want, at)
			}
		}
		return nil
	}))
	must.SliceEmpty(t, job.Unanswered)
	must.Len(t, 5, job.Groups)
	must.Eq(t, 3, job.Groups[0].Ranks[0].Rank, must.Sprint("the stopped one is first"))
	for i, g := range job.Groups {
		must.Eq(t, i < 4, g.Suspect)
		if g.Ranks[0].Rank == 2 {
			must.StrContains(t, g.Ranks[0].calls(), "_try_get_data")
			must.Len(t, 1, g.Ranks[0].Workers)
		}
	}
	must.Len(t, 2, job.Groups[4].Ranks)
	out, err := tr.stacks(ctx)
	must.NoError(t, err)
	t.Logf("%s", out)
	must.StrContains(t, string(out), "rank 3 (suspect): stopped by a signal (SIGSTOP)")
	must.StrContains(t, string(out), "\n2 ranks (0, 1): ")
}

// The command finds its way in a task with a file system and processes of its own. The
// script, for the client's Python, registers as the package kolo does.
func TestStacksIsolated(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	c := startTorchCluster(t)
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("no " + python)
	}
	const hang = `import faulthandler, os, time
faulthandler.register(62, file=open(os.environ["KOLO_STACKS_FILE"], "a"))
def hang():
    time.sleep(3600)
hang()`
	tr := startTorch(ctx, t, c, trainingOptions{vars: cluster.Vars{"python": python}, config: map[string]any{"isolation": "exec"},
		edit: func(job *api.Job) { job.TaskGroups[0].Tasks[0].Config["args"] = []any{"-c", hang} }})
	must.NoError(t, cluster.Until(ctx, "the stack of an isolated task", func(ctx context.Context) error {
		out, err := tr.stacks(ctx)
		if err != nil {
			return err
		}
		if text := string(out); !strings.Contains(text, "a process without a rank: sleeping") || !strings.Contains(text, "    hang      <string>:4\n") {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	}))
}

// stacks runs kolo stacks for the job.
func (tr *training) stacks(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root(tr.t), "bin", "kolo"), append(append([]string{"stacks"}, args...), tr.id)...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+tr.c.API.Address())
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return out, err
}
