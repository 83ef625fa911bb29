// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// leavers returns the frameworks whose processes change their ring, by their Python.
func leavers(t *testing.T) map[string]string {
	t.Helper()
	frameworks := map[string]string{"horovod": python(t)}
	if _, err := os.Stat(torchPython(t)); err == nil {
		frameworks["torch"] = torchPython(t)
	}
	return frameworks
}

// leaving is a training of e2e/train/leaver.py on hosts that the test lists.
type leaving struct {
	t        *testing.T
	dir      string
	finished chan error
}

func startLeaving(t *testing.T, framework, python, hosts, env string) *leaving {
	t.Helper()
	l := &leaving{t: t, dir: t.TempDir(), finished: make(chan error, 1)}
	l.list(hosts)
	output, err := os.Create(filepath.Join(l.dir, "output"))
	must.NoError(t, err)
	must.NoError(t, os.Mkdir(filepath.Join(l.dir, "records"), 0o700))
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), "bin", "nomad-driver-"+framework), "run", "-np", "2", "--min-np", "1",
		"--discovery-interval", "50ms", "--host-discovery-script", "cat "+filepath.Join(l.dir, "hosts"),
		"--", python, filepath.Join(root(t), "e2e/train/leaver.py"), filepath.Join(l.dir, "records"))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root(t), "python"), env)
	cmd.Stdout, cmd.Stderr = output, output
	must.NoError(t, cmd.Start())
	go func() { l.finished <- cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.output())
		}
		_ = output.Close()
	})
	return l
}

// list changes the hosts, all at once.
func (l *leaving) list(hosts string) {
	file := filepath.Join(l.dir, "hosts")
	must.NoError(l.t, os.WriteFile(file+".new", []byte(strings.ReplaceAll(hosts, " ", "\n")+"\n"), 0o600))
	must.NoError(l.t, os.Rename(file+".new", file))
}

func (l *leaving) output() string {
	text, _ := os.ReadFile(filepath.Join(l.dir, "output"))
	return string(text)
}

// records returns the lines of a record of each process, by its directory.
func (l *leaving) records(name string) map[string][]string {
	lines := map[string][]string{}
	dirs, _ := os.ReadDir(filepath.Join(l.dir, "records"))
	for _, d := range dirs {
		if text, err := os.ReadFile(filepath.Join(l.dir, "records", d.Name(), name)); err == nil && len(text) > 0 {
			lines[d.Name()] = strings.Split(strings.TrimSpace(string(text)), "\n")
		}
	}
	return lines
}

// until waits for what the training is to do.
func (l *leaving) until(what string, ok func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	must.NoError(l.t, cluster.Until(ctx, what, func(context.Context) error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	}))
}

// stepped waits until the process of a rank has made some steps in a ring of a size, and
// returns its directory and their times in seconds.
func (l *leaving) stepped(rank, size int) (process string, times []float64) {
	l.t.Helper()
	l.until(fmt.Sprintf("steps of rank %d of %d", rank, size), func() bool {
		for dir, lines := range l.records("steps") {
			process, times = dir, nil
			for _, line := range lines {
				var at float64
				var step, r, n int
				if _, err := fmt.Sscan(line, &at, &step, &r, &n); err == nil && r == rank && n == size {
					times = append(times, at)
				}
			}
			if len(times) > 5 {
				return true
			}
		}
		return false
	})
	return process, times
}

// stop ends the training.
func (l *leaving) stop() {
	l.t.Helper()
	must.NoError(l.t, os.WriteFile(filepath.Join(l.dir, "records", "stop"), nil, 0o600))
	select {
	case err := <-l.finished:
		must.NoError(l.t, err)
	case <-time.After(2 * time.Minute):
		l.t.Fatal("training does not end")
	}
}

// A process that leaves at a commit ends by itself: buffered output is written, and threads and
// exit handlers finish. The others train on meanwhile, and the job is not complete. Rank 0 leaves,
// because it is the one that has something to finish.
func TestALeaverEndsByItself(t *testing.T) {
	for framework, python := range leavers(t) {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			l := startLeaving(t, framework, python, "a:1 b:1", "HANG=")
			leaver, _ := l.stepped(0, 2)
			other, _ := l.stepped(1, 2)
			must.NotEq(t, leaver, other)
			l.list("b:1")
			next, after := l.stepped(0, 1)
			must.Eq(t, other, next)
			_, before := l.stepped(1, 2)
			t.Logf("gap %.3f s", after[0]-before[len(before)-1])
			l.until("the end of the one that left", func() bool { return len(l.records("atexit")[leaver]) == 1 })
			l.until("its lines", func() bool { return len(l.records("lines")[leaver]) > 0 })
			must.Len(t, 27, l.records("lines")[leaver])
			must.Len(t, 5, l.records("uploads")[leaver])
			must.StrHasSuffix(t, " 0", l.records("finally")[leaver][0], must.Sprint("its rank is the one that it had"))
			_, steps := l.stepped(0, 1)
			l.until("steps after its end", func() bool {
				_, now := l.stepped(0, 1)
				return len(now) > len(steps)+5
			})
			l.stop()
			must.StrNotContains(t, l.output(), "is killed")
		})
	}
}

// A leaving process that does not end is killed when its time is over. The next ring does not wait
// for that.
func TestALeaverThatHangsIsKilled(t *testing.T) {
	for framework, python := range leavers(t) {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			l := startLeaving(t, framework, python, "a:2", "HANG=1")
			l.stepped(1, 2)
			l.list("a:1")
			_, trained := l.stepped(0, 1)
			event := "rank 1 of ring 1 (host a, slot 1) is killed: it left the ring, has no place in the next, and has not ended in the time that it was given (leave_timeout)"
			must.StrNotContains(t, l.output(), event, must.Sprint("the ring waited for it"))
			l.until("the event", func() bool { return strings.Contains(l.output(), event) })
			must.MapLen(t, 1, l.records("finally"))
			must.MapLen(t, 0, l.records("atexit"))
			_, now := l.stepped(0, 1)
			must.Greater(t, len(trained), len(now))
			l.stop()
		})
	}
}

// All tasks of a job are stopped at once, with Nomad's default kill_timeout. Each process,
// including that of rank 0, gets to its finally blocks.
func TestAStoppedJobsProcessesEndByThemselves(t *testing.T) {
	ctx := testContext(t, 6*time.Minute)
	c := startTorchCluster(t)
	for framework, start := range map[string]func(context.Context, testing.TB, *cluster.Cluster, trainingOptions) *training{"horovod": startTraining, "torch": startTorch} {
		t.Run(framework, func(t *testing.T) {
			l := &leaving{t: t, dir: t.TempDir()}
			must.NoError(t, os.Mkdir(filepath.Join(l.dir, "records"), 0o700))
			tr := start(ctx, t, c, trainingOptions{
				count: 2,
				vars:  cluster.Vars{"script": filepath.Join(root(t), "e2e/train/leaver.py"), "args": []string{filepath.Join(l.dir, "records")}},
				edit:  func(job *api.Job) { job.TaskGroups[0].Tasks[0].KillTimeout = ptr(5 * time.Second) },
			})
			l.stepped(0, 2)
			l.stepped(1, 2)
			must.NoError(t, c.StopJob(ctx, tr.id, false))
			l.until("both to be in a finally block", func() bool { return len(l.records("finally")) == 2 })
		})
	}
}
