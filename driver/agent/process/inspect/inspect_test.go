// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// patience bounds the waits of tests.
const patience = time.Minute

// script hangs in one way, after it has written its stacks' file.
const script = `
import collections, fcntl, itertools, os, sys, time

def load():
    time.sleep(1000)

def work():
    while True:
        sum(i for i in range(100))

def fork_work():
    if os.fork() == 0:
        work()
    time.sleep(1000)

def spin():
    collections.deque(itertools.repeat(1), maxlen=0)  # never returns, and holds the GIL

def lock():
    with open(sys.argv[2]) as f:
        fcntl.flock(f, fcntl.LOCK_EX)

def fork():
    if os.fork() == 0:
        load()
    lock()

print("ready", flush=True)
globals()[sys.argv[1]]()
`

// python returns a Python interpreter, or skips the test.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	if out, err := exec.CommandContext(t.Context(), path, "-c", "import faulthandler; faulthandler.register").CombinedOutput(); err != nil {
		t.Skipf("needs a python3 that has faulthandler: %s", out)
	}
	return path
}

// job is an allocation with Python processes.
type job struct {
	t      *testing.T
	dir    string
	locked string
	shell  bool
	ranks  Ranks
}

func newJob(t *testing.T) *job {
	t.Helper()
	t.Setenv("PATH", filepath.Dir(python(t))+":/usr/bin:/bin")
	j := &job{t: t, dir: t.TempDir(), ranks: Ranks{Generation: 3, Size: 4}}
	j.locked = filepath.Join(j.dir, "lock")
	f, err := os.Create(j.locked)
	must.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	must.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return j
}

// start starts a process with the package kolo, or without it.
func (j *job) start(does string, kolo bool) *exec.Cmd {
	j.t.Helper()
	rank := len(j.ranks.Processes)
	file := "progress-" + string(rune('0'+rank)) + ".stacks"
	imports := ""
	if kolo {
		imports = "import kolo\n"
	}
	cmd := exec.CommandContext(j.t.Context(), python(j.t), "-c", imports+script, does, j.locked)
	if j.shell {
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$@"; exit`, "sh"}, cmd.Args...)
	}
	source, err := filepath.Abs("../../../../python")
	must.NoError(j.t, err)
	cmd.Env = append(os.Environ(), Variable+"="+filepath.Join(j.dir, file), "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	must.NoError(j.t, err)
	must.NoError(j.t, cmd.Start())
	j.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	_, err = out.Read(make([]byte, 64)) // it is ready
	must.NoError(j.t, err)
	started, err := Started(cmd.Process.Pid)
	must.NoError(j.t, err)
	j.ranks.Processes = append(j.ranks.Processes, Entry{Rank: rank, Slot: rank, PID: cmd.Process.Pid, Started: started, Step: 7, Stacks: file})
	return cmd
}

// take takes the stacks until they are as expected, because a process needs time to get
// into its call.
func (j *job) take(until func(stacks.Report) bool) stacks.Report {
	j.t.Helper()
	must.NoError(j.t, j.ranks.Write(j.dir))
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var out, errs bytes.Buffer
		must.Eq(j.t, 0, Main(j.t.Context(), []string{j.dir}, &out, &errs), must.Sprint(errs.String()))
		r, err := stacks.Decode(out.Bytes())
		must.NoError(j.t, err)
		if until(r) {
			return r
		}
		if time.Since(begun) > patience {
			j.t.Fatalf("the stacks are %s", out.String())
		}
	}
}

// calls returns the functions of the main thread, innermost first.
func calls(p stacks.Process) string {
	var names []string
	if main := p.Main(); main != nil {
		for _, f := range main.Frames {
			names = append(names, f.Function)
		}
	}
	return strings.Join(names, " ")
}

func TestTake(t *testing.T) {
	j := newJob(t)
	j.start("load", true)
	must.NoError(t, j.start("load", true).Process.Signal(syscall.SIGSTOP))
	j.start("spin", true)
	j.shell = true // between the agent and Python
	j.start("fork", true)
	r := j.take(func(r stacks.Report) bool {
		return calls(r.Ranks[0].Process) == "load <module>" && r.Ranks[1].State == stacks.Stopped && calls(r.Ranks[2].Process) == "spin <module>" &&
			calls(r.Ranks[3].Process) == "lock fork <module>" && len(r.Ranks[3].Workers) == 1 && calls(r.Ranks[3].Workers[0]) == "load fork <module>"
	})
	must.Eq(t, 3, r.Generation)
	must.Eq(t, 7, r.Ranks[0].Step)
	must.Eq(t, stacks.Sleeping, r.Ranks[0].State)
	must.Eq(t, stacks.FromFaulthandler, r.Ranks[0].Source)
	must.StrContains(t, r.Ranks[1].Missing, "a process that is stopped handles no signal")
	must.SliceEmpty(t, r.Ranks[1].Threads)
	must.Eq(t, stacks.Running, r.Ranks[2].State)
	must.SliceContains(t, []string{"flock", ""}, r.Ranks[3].Syscall) // empty where yama hides it
}

// Nothing happens to a process that would not survive the signal.
func TestTake_NoHandler(t *testing.T) {
	j := newJob(t)
	cmd := j.start("load", false)
	must.NoError(t, os.WriteFile(filepath.Join(j.dir, "progress-0.stacks"), []byte(" File \"x\", line 1 in forged\n"), 0o600))
	r := j.take(func(stacks.Report) bool { return true })
	must.Eq(t, "py-spy is not installed; faulthandler: "+errNoHandler.Error(), r.Ranks[0].Missing)
	must.Eq(t, "it does not run Python", (&taker{}).process(t.Context(), target{process: process{pid: os.Getpid()}, inRing: true}).Missing)
	must.NoError(t, cmd.Process.Signal(syscall.Signal(0)))

	t.Log("a process that may still be starting is asked, but not by the signal")
	j = newJob(t)
	j.start("load", true)
	j.ranks.Processes[0].Rank = stacks.NoRank
	r = j.take(func(r stacks.Report) bool { return calls(r.Ranks[0].Process) == "load <module>" })
	p := target{process: process{pid: r.Ranks[0].PID, started: j.ranks.Processes[0].Started}}
	must.ErrorIs(t, p.maySignal(false, 0), errOutside)
	var err error
	p.started, err = Started(j.start("load", true).Process.Pid)
	must.NoError(t, err)
	p.inRing = true
	must.ErrorIs(t, p.maySignal(false, 0), errYoung)
	j.ranks.Processes = j.ranks.Processes[:1]

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r, err = Take(ended, j.dir)
	must.NoError(t, err)
	must.Eq(t, "there was no time left", r.Ranks[0].Missing)

	// The same ID, but another process.
	j.ranks.Processes[0].Started++
	r = j.take(func(stacks.Report) bool { return true })
	must.Eq(t, stacks.Dead, r.Ranks[0].State)
}

// A task may put anything in the place of its files.
func TestTake_Hostile(t *testing.T) {
	j := newJob(t)
	j.start("load", true)
	path := filepath.Join(j.dir, j.ranks.Processes[0].Stacks)
	for name, put := range map[string]func() error{
		"a pipe":      func() error { return unix.Mkfifo(path, 0o600) },
		"a link":      func() error { return os.Symlink("/dev/zero", path) },
		"a directory": func() error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			must.NoError(t, os.RemoveAll(path))
			must.NoError(t, put())
			r := j.take(func(stacks.Report) bool { return true })
			must.StrContains(t, r.Ranks[0].Missing, "faulthandler: ")
			_, err := openRegular(path, os.O_RDWR)
			must.Error(t, err)
		})
	}
	for name, text := range map[string]string{"no list": "x", "a wrong list": `{"processes":{}}`} {
		t.Run(name, func(t *testing.T) {
			must.NoError(t, os.WriteFile(filepath.Join(j.dir, ranksName), []byte(text), 0o600))
			var out, errs bytes.Buffer
			must.Eq(t, 1, Main(t.Context(), []string{j.dir}, &out, &errs))
			must.StrContains(t, errs.String(), "list of ranks: ")
		})
	}
	t.Run("too many", func(t *testing.T) {
		j.ranks.Processes = make([]Entry, stacks.MaxRanks+5)
		must.NoError(t, j.ranks.Write(j.dir))
		r, err := Take(t.Context(), j.dir)
		must.NoError(t, err)
		must.Len(t, stacks.MaxRanks, r.Ranks)
		must.Eq(t, 5, r.Dropped)
	})
}

// stub is a py-spy that answers as it is told.
func stub(t *testing.T, body string) {
	t.Helper()
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "py-spy"), []byte("#!/bin/sh\n"+body), 0o755))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestPySpy(t *testing.T) {
	self, err := readStat(os.Getpid())
	must.NoError(t, err)
	stub(t, `echo '[{"pid":1,"thread_name":"MainThread","os_thread_id":1,"frames":[{"name":"f","filename":"'"$*"'","line":2}]}]'`)
	threads, err := new(pySpy).dump(t.Context(), self)
	must.NoError(t, err)
	must.StrHasPrefix(t, "dump --json --pid ", threads[0].Frames[0].File)
	stopped := self
	stopped.state = stacks.Stopped
	threads, err = new(pySpy).dump(t.Context(), stopped)
	must.NoError(t, err)
	must.StrHasSuffix(t, " --nonblocking", threads[0].Frames[0].File)

	stub(t, `echo "Permission Denied: Try running again" >&2; exit 1`)
	spy := new(pySpy)
	_, err = spy.dump(t.Context(), self)
	must.ErrorIs(t, err, errRefused)
	stub(t, `echo "Error: Failed to find python version from target process" >&2; exit 1`)
	_, err = spy.dump(t.Context(), self)
	must.ErrorIs(t, err, errRefused, must.Sprint("asked once"))
	_, err = new(pySpy).dump(t.Context(), self)
	must.EqError(t, err, "py-spy: Error: Failed to find python version from target process (exit status 1)")

	stub(t, `sleep 1000`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = new(pySpy).dump(ctx, self)
	must.ErrorIs(t, err, context.DeadlineExceeded)

	stub(t, `head -c 3000000 /dev/zero`)
	_, err = new(pySpy).dump(t.Context(), self)
	must.ErrorContains(t, err, "output of py-spy: ")
}

// A process that py-spy has left stopped runs on.
func TestPySpy_LeavesNoProcessStopped(t *testing.T) {
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	must.NoError(t, sleep.Start())
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	stub(t, `kill -STOP $4; touch "$0.stopped"; sleep 1000`)
	stopped := filepath.Join(filepath.Dir(find(0)), "py-spy.stopped")
	p, err := readStat(sleep.Process.Pid)
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(stopped); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	_, err = new(pySpy).dump(ctx, p)
	must.ErrorContains(t, err, "py-spy has not answered")
	state := func() stacks.State {
		now, err := readStat(p.pid)
		must.NoError(t, err)
		return now.state
	}
	for begun := time.Now(); state() == stacks.Stopped; time.Sleep(5 * time.Millisecond) {
		must.Less(t, patience, time.Since(begun))
	}
}

// A healthy process that runs Python code is asked by its thread, many times. The signal could
// crash it, so it is not sent even if the thread does not answer. Native code that keeps the
// GIL is the exception.
func TestAskProcess_Running(t *testing.T) {
	j := newJob(t)
	busy := j.start("work", true)
	ask := func(cmd *exec.Cmd, i int) ([]stacks.Thread, target, error) {
		own, err := readStat(cmd.Process.Pid)
		must.NoError(t, err)
		p := target{process: own, file: filepath.Join(j.dir, j.ranks.Processes[i].Stacks), inRing: true, late: new([]late)}
		threads, err := askProcess(t.Context(), p)
		return threads, p, err
	}
	answered := 0
	for begun := time.Now(); answered < 20; {
		threads, _, err := ask(busy, 0)
		if err == nil && strings.HasSuffix(calls(stacks.Process{Threads: threads}), "work <module>") {
			answered++ // otherwise it has not begun, or got no CPU
		}
		must.Less(t, patience, time.Since(begun))
	}

	forks := j.start("fork_work", true)
	var child process
	for begun := time.Now(); child.pid == 0 || age(child.started) < youngest; time.Sleep(20 * time.Millisecond) {
		must.Less(t, patience, time.Since(begun))
		if found := descendants(list(), forks.Process.Pid); len(found) == 1 {
			child = found[0]
		}
	}
	p := target{process: child, file: filepath.Join(j.dir, j.ranks.Processes[1].Stacks), inRing: true, late: new([]late)}
	_, err := askProcess(t.Context(), p)
	must.ErrorIs(t, err, errRuns)
	must.SliceEmpty(t, *p.late)

	for _, cmd := range []*exec.Cmd{busy, forks} {
		must.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	}
	spins := j.start("spin", true)
	for begun := time.Now(); ; {
		threads, p, err := ask(spins, 2)
		if err == nil && calls(stacks.Process{Threads: threads}) == "spin <module>" && len(*p.late) == 1 {
			must.True(t, mayAnswer((*p.late)[0]), must.Sprint("its thread may still write into the file"))
			break
		}
		must.Less(t, patience, time.Since(begun))
	}
}

// A process may give any file in place of the pipe. Only a pipe is written to.
func TestRequest(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	fifo := filepath.Join(dir, "fifo")
	must.NoError(t, unix.Mkfifo(fifo, 0o600))
	for _, path := range []string{file, fifo, "/dev/zero"} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must.NoError(t, err)
		must.ErrorIs(t, request(fmt.Sprintf("/proc/self/fd/%d", f.Fd())), errNoThread, must.Sprint(path))
		must.NoError(t, f.Close())
	}
	must.ErrorIs(t, request("/proc/self/fd/100000"), errNoThread)
	text, err := os.ReadFile(file)
	must.NoError(t, err)
	must.Eq(t, "kept", string(text))

	var ends [2]int
	must.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
	t.Cleanup(func() { _ = unix.Close(ends[0]); _ = unix.Close(ends[1]) })
	for range 1 << 17 { // more than a pipe holds
		must.NoError(t, request(fmt.Sprintf("/proc/self/fd/%d", ends[0])))
	}
}

// A call that does not end, such as a read from /proc, keeps no answer of another rank.
func TestGather(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	ctx, cancel := context.WithCancel(t.Context())
	ranks := make([]stacks.Rank, 3)
	var others sync.WaitGroup
	others.Add(2)
	gather(ctx, ranks, func(i int) stacks.Rank {
		if i == 1 {
			others.Wait()
			cancel()
			<-never
			return stacks.Rank{}
		}
		others.Done()
		return stacks.Rank{Rank: i, Slot: 7}
	})
	must.Eq(t, []stacks.Rank{{Slot: 7}, {}, {Rank: 2, Slot: 7}}, ranks)
}

// A process that answers too late writes into the file of the others. None of them is asked
// meanwhile, so no stack is taken for that of another process. Nor is it asked twice.
func TestAskProcess_Late(t *testing.T) {
	j := newJob(t)
	cmd := j.start("load", true)
	own, err := readStat(cmd.Process.Pid)
	must.NoError(t, err)
	p := target{process: own, file: filepath.Join(j.dir, j.ranks.Processes[0].Stacks), inRing: true, late: new([]late)}
	p.started -= userHZ // old enough
	must.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	for begun := time.Now(); own.state != stacks.Stopped; time.Sleep(5 * time.Millisecond) {
		must.Less(t, patience, time.Since(begun))
		own, err = readStat(own.pid)
		must.NoError(t, err)
	}
	must.NoError(t, send(own.pid, own.started, Signal)) // as an earlier command
	must.True(t, pending(own.pid))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = askProcess(ctx, p)
	must.ErrorIs(t, err, errNoAnswer, must.Sprint("it does not send the signal again, which would fail for this start"))
	must.Len(t, 1, *p.late)
	*p.late = []late{{own, false}}
	_, err = askProcess(t.Context(), p)
	must.ErrorIs(t, err, errLate)
	must.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	for begun := time.Now(); mayAnswer(late{own, false}); time.Sleep(5 * time.Millisecond) {
		must.Less(t, patience, time.Since(begun))
	}
	p.started = own.started
	for begun := time.Now(); age(p.started) < youngest; time.Sleep(20 * time.Millisecond) {
		must.Less(t, patience, time.Since(begun))
	}
	threads, err := askProcess(t.Context(), p)
	must.NoError(t, err)
	must.Eq(t, "load <module>", calls(stacks.Process{Threads: threads}))
}

// The time may be given, and at most TakeTime.
func TestMain_Arguments(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "0"}, {"a", "x"}, {"a", "NaN"}, {"a", "8"}, {"a", "1", "2"}} {
		var out, errs bytes.Buffer
		must.Eq(t, 2, Main(t.Context(), args, &out, &errs), must.Sprint(args))
		must.StrContains(t, errs.String(), "usage: stacks ")
	}
}

// The limit holds for all ways to write, such as io.Copy's.
func TestLimited(t *testing.T) {
	l := &limited{most: 5}
	_, err := io.Copy(l, io.LimitReader(strings.NewReader(strings.Repeat("x", 100)), 100))
	must.NoError(t, err)
	must.Eq(t, "xxxxx", l.text.String())
}

func TestParseStat(t *testing.T) {
	tail := " 1 5 5 0 -1 4194560 0 0 0 0 7 2 0 0 20 0 1 0 4711 0 0"
	p, err := parseStat([]byte("12 (a) R) (b) T" + tail))
	must.NoError(t, err)
	must.Eq(t, process{pid: 12, parent: 1, command: "a) R) (b", state: stacks.Stopped, started: 4711, used: 9}, p)
	for _, text := range []string{"", ")(", "12 (a) R 1", "x (a) R" + tail, "12 (a) R x 5 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711"} {
		_, err := parseStat([]byte(text))
		must.ErrorIs(t, err, errStat, must.Sprint(text))
	}
	for letter, state := range map[string]stacks.State{"R": stacks.Running, "S": stacks.Sleeping, "I": stacks.Sleeping, "t": stacks.Traced, "D": stacks.Disk, "Z": stacks.Dead} {
		must.Eq(t, state, stateOf(letter))
	}
}

func TestDescendants(t *testing.T) {
	all := map[int]process{}
	for pid, parent := range map[int]int{1: 0, 5: 1, 9: 5, 7: 5, 8: 7, 6: 1, 20: 21, 21: 20} {
		all[pid] = process{pid: pid, parent: parent}
	}
	var found []int
	for _, p := range descendants(all, 5) {
		found = append(found, p.pid)
	}
	must.Eq(t, []int{7, 9, 8}, found)
	must.Len(t, 1, descendants(all, 20))
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	must.NoError(t, err)
	for range 2 {
		program, err := Link(dir)
		must.NoError(t, err)
		must.Eq(t, self, program)
	}
	program, err := Link("")
	must.NoError(t, err)
	must.Eq(t, "", program)
	must.FileNotExists(t, linkName)
	target, err := os.Readlink(filepath.Join(dir, linkName))
	must.NoError(t, err)
	must.Eq(t, self, target)
}
