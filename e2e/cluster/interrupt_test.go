// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
)

// fakeNomad is a variable with the path of a program in place of Nomad. If it is
// set, this test binary is a run with clusters.
const fakeNomad = "KOLO_TEST_FAKE_NOMAD"

// TestRun is not a test but a run with one cluster that is ready and one that is
// starting, until a signal ends it.
func TestRun(t *testing.T) {
	nomad := os.Getenv(fakeNomad)
	if nomad == "" {
		t.Skip("the other tests start it")
	}
	there := &Cluster{started: make(chan struct{}), cancel: func() {}}
	must.NoError(t, admit(there))
	must.NoError(t, there.prepare(t.Context()))
	must.NoError(t, there.network.addClient(t.Context(), 1))
	must.NoError(t, (&agent{nomad: nomad, dir: filepath.Join(there.Dir, "c1"), prefix: there.network.enter(1)}).start(nil))
	close(there.started)
	fmt.Println("ready")
	_, err := Start(t.Context(), Options{Nomad: nomad}) // its server never leads
	must.ErrorContains(t, err, "the server to lead")
	_, err = Start(t.Context(), Options{Nomad: nomad})
	must.ErrorIs(t, err, ErrInterrupted)
	must.ErrorIs(t, (&agent{nomad: nomad, dir: t.TempDir()}).start(nil), ErrInterrupted)
	select {} // the signal ends this process when both are gone
}

// startRun starts TestRun and waits until both of its clusters have an agent.
// It returns the directory that theirs are in.
func startRun(t *testing.T, prefix ...string) (run *exec.Cmd, temp string) {
	t.Helper()
	temp = t.TempDir()
	nomad := filepath.Join(temp, "nomad")
	must.NoError(t, os.WriteFile(nomad, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755))
	args := append(prefix, os.Args[0], "-test.run=^TestRun$", "-test.v")
	run = exec.Command(args[0], args[1:]...)
	run.Env = append(os.Environ(), fakeNomad+"="+nomad, "TMPDIR="+temp)
	run.Stderr = os.Stderr
	out, err := run.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, run.Start())
	t.Cleanup(func() { _ = run.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	must.NoError(t, Until(t.Context(), "both clusters", func(context.Context) error {
		if n := len(agentsIn(temp)); n != 2 {
			return fmt.Errorf("%d agents run", n)
		}
		return nil
	}))
	return run, temp
}

// agentsIn returns the fake agents that run below temp.
func agentsIn(temp string) []Process {
	return Processes(func(p Process) bool {
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID))
		return p.Args[0] == "sleep" && strings.HasPrefix(cwd, temp)
	})
}

// networksWork reports whether clusters have networks of their own here.
func networksWork(t *testing.T) bool {
	t.Helper()
	n, err := newNetwork(t.Context(), t.TempDir())
	must.NoError(t, err)
	if n.shared() {
		return false
	}
	must.NoError(t, ip(t.Context(), "link", "del", n.name))
	return true
}

// mustBeClean fails if anything is left of the clusters below temp.
func mustBeClean(t *testing.T, temp string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(temp, "kolo-*"))
	must.NoError(t, err)
	must.SliceEmpty(t, left)
	must.SliceEmpty(t, agentsIn(temp))
	must.SliceEmpty(t, bridgesOf(temp))
}

// bridgesOf returns the bridges of the clusters below temp; there may be no ip.
func bridgesOf(temp string) (of []string) {
	links, _ := exec.Command("ip", "-o", "link").CombinedOutput()
	for line := range strings.Lines(string(links)) {
		if strings.Contains(line, "alias "+temp) {
			of = append(of, line)
		}
	}
	return of
}

// When an interrupted process has ended, its clusters are gone: those that were
// ready, and those that were starting.
func TestSignalsEndAllClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		sig    syscall.Signal
		prefix []string
		code   int // -1 is by the signal
	}{
		"SIGINT":  {sig: syscall.SIGINT, code: -1},
		"SIGTERM": {sig: syscall.SIGTERM, code: -1},
		// As a script starts a job with &.
		"SIGINT, which was ignored": {sig: syscall.SIGINT, prefix: []string{"/bin/sh", "-c", `trap "" INT; exec "$@"`, "sh"}, code: 130},
	} {
		t.Run(name, func(t *testing.T) {
			run, temp := startRun(t, tc.prefix...)
			must.NoError(t, run.Process.Signal(tc.sig))
			must.Error(t, run.Wait())
			mustBeClean(t, temp)
			must.Eq(t, tc.code, run.ProcessState.ExitCode())
			if tc.code < 0 {
				must.Eq(t, tc.sig, run.ProcessState.Sys().(syscall.WaitStatus).Signal())
			}
		})
	}
}

// The remains of runs that were killed together with their reapers are removed by
// the next run, and nothing else.
func TestLeftoversAreRemoved(t *testing.T) {
	run, temp := startRun(t)
	var logged []string
	remove := func() {
		must.NoError(t, removeLeftovers(t.Context(), temp, func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }))
	}
	remove()
	must.SliceEmpty(t, logged, must.Sprint("its owner is alive"))

	// Others' directories: without an owner, of a container, of a link.
	other := filepath.Join(temp, "kolo-other")
	must.NoError(t, os.MkdirAll(other, 0o755))
	foreign := filepath.Join(temp, "kolo-container")
	must.NoError(t, os.MkdirAll(foreign, 0o755))
	text, err := json.Marshal(owner{PID: 1 << 22, Started: "1", Namespace: "pid:[1]"})
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(filepath.Join(foreign, ownerFile), text, 0o600))
	link := filepath.Join(temp, "kolo-link")
	target := t.TempDir()
	self, err := ownerOf(os.Getpid())
	must.NoError(t, err)
	text, err = json.Marshal(owner{PID: 1 << 22, Started: "1", Namespace: self.Namespace})
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(filepath.Join(target, ownerFile), text, 0o600))
	must.NoError(t, os.Symlink(target, link))

	reapers := Processes(func(p Process) bool {
		return len(p.Args) > 4 && p.Args[3] == reaperName && strings.HasPrefix(p.Args[4], temp)
	})
	must.Len(t, 2, reapers)
	for _, r := range reapers {
		must.NoError(t, r.Kill())
	}
	must.NoError(t, run.Process.Kill())
	_ = run.Wait()
	must.Len(t, 2, agentsIn(temp))
	if networksWork(t) {
		must.Len(t, 2, bridgesOf(temp))
	}
	must.NoError(t, Until(t.Context(), "the reapers' end", func(context.Context) error {
		if reaped(reapers[0].Args[4]) || reaped(reapers[1].Args[4]) {
			return errors.New("they run")
		}
		return nil
	}))
	remove()
	must.Len(t, 2, logged)
	must.StrContains(t, logged[0], fmt.Sprintf("process %d has left", run.Process.Pid))
	for _, kept := range []string{other, foreign, link} {
		_, err := os.Lstat(kept)
		must.NoError(t, err)
		must.NoError(t, os.RemoveAll(kept))
	}
	mustBeClean(t, temp)
}

// A reused process ID does not make the remains of a run look alive.
func TestOwnerIsGone(t *testing.T) {
	self, err := ownerOf(os.Getpid())
	must.NoError(t, err)
	for name, tc := range map[string]struct {
		change func(*owner)
		gone   bool
	}{
		"alive":             {change: func(*owner) {}},
		"ended":             {change: func(o *owner) { o.PID = 1 << 22 }, gone: true},
		"the id used again": {change: func(o *owner) { o.Started = "1" }, gone: true},
		"of a container":    {change: func(o *owner) { o.PID, o.Namespace = 1<<22, "pid:[1]" }},
	} {
		t.Run(name, func(t *testing.T) {
			o := self
			tc.change(&o)
			gone, err := o.gone()
			must.NoError(t, err)
			must.Eq(t, tc.gone, gone)
		})
	}
}
