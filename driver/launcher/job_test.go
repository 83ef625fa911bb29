// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/horovod"
	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
)

var horovodrun = Framework{Framework: horovod.Agent(), Program: "nomad-driver-horovod", Dialect: Horovodrun}

// workerMode makes this test binary a training process; see worker.
const workerMode = "KOLO_TEST_WORKER"

// pidDir is the variable with the directory where workers write their numbers.
const pidDir = "KOLO_TEST_PIDS"

func pidFile(dir, host string, slot int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%d.pid", host, slot))
}

func TestMain(m *testing.M) {
	intrudertest.Main()
	if os.Getenv(runMode) != "" {
		os.Exit(Main(context.Background(), horovodrun, os.Args[1:])) //nolint:forbidigo // this is another process
	}
	if os.Getenv(scriptMode) != "" {
		os.Exit(scriptMain()) //nolint:forbidigo // this is another process
	}
	if os.Getenv(workerMode) != "" && os.Getenv("KOLO_WORKER_ADDR") != "" {
		os.Exit(torchWorkerMain()) //nolint:forbidigo // this is another process
	}
	if os.Getenv(workerMode) != "" {
		os.Exit(workerMain()) //nolint:forbidigo // this is another process
	}
	m.Run()
}

// job is a running `run` whose hosts a test lists.
type job struct {
	t      *testing.T
	r      *launcher
	hosts  string
	pids   string
	spy    *spy
	log    *record
	result chan host.Result
	cancel context.CancelFunc
}

func startJob(t *testing.T, steps int, hosts string, flags ...string) *job {
	t.Helper()
	return startJobOf(t, horovodrun, nil, steps, hosts, flags...)
}

// startJobOf is startJob with a framework and more variables of its workers.
func startJobOf(t *testing.T, f Framework, env map[string]string, steps int, hosts string, flags ...string) *job {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	j := &job{t: t, hosts: file, pids: t.TempDir(), result: make(chan host.Result, 1)}
	j.list(hosts)
	args := append([]string{"-np", "1", "--min-np", "1", "-debounce", "50ms", "-discovery-interval", "50ms",
		"--host-discovery-script", "cat " + file}, flags...)
	o, err := parseFlags(f, append(args, os.Args[0]), io.Discard)
	must.NoError(t, err)
	j.r = newLauncher(f.Framework, o)
	j.r.out, j.r.err = io.Discard, &testWriter{t: t}
	j.r.config.Env = map[string]string{workerMode: strconv.Itoa(steps), pidDir: j.pids}
	maps.Copy(j.r.config.Env, env)
	j.spy, j.log = spyOn(j.r), logged(j.r)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	j.cancel = cancel
	var wg sync.WaitGroup
	wg.Go(func() { j.result <- j.r.run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return j
}

type testWriter struct{ t *testing.T }

func (w *testWriter) Write(b []byte) (int, error) { return len(b), nil }

// list changes the hosts, all at once.
func (j *job) list(hosts string) {
	must.NoError(j.t, os.WriteFile(j.hosts+".new", []byte(strings.ReplaceAll(hosts, " ", "\n")+"\n"), 0o600))
	must.NoError(j.t, os.Rename(j.hosts+".new", j.hosts))
}

func (j *job) status() *wire.Status {
	return j.r.leader.Status(context.Background())
}

// until waits for a status.
func (j *job) until(what string, ok func(*wire.Status) bool) *wire.Status {
	j.t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		s := j.status()
		if ok(s) {
			return s
		}
		if time.Now().After(end) {
			j.t.Fatalf("waiting for %s: %+v", what, s)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// size waits until a ring of n trains and makes steps.
func (j *job) size(n int) *wire.Status {
	j.t.Helper()
	return j.until(fmt.Sprintf("a ring of %d", n), func(s *wire.Status) bool {
		return s.Phase == "training" && s.Size == n && len(s.Resizes) > 0 && s.Resizes[len(s.Resizes)-1].Generation == s.Generation
	})
}

// pid returns the process of a rank.
func (j *job) pid(rank int) int {
	j.t.Helper()
	r := j.status().Ranks[rank]
	text, err := os.ReadFile(pidFile(j.pids, r.Host, r.Slot))
	must.NoError(j.t, err)
	pid, err := strconv.Atoi(string(text))
	must.NoError(j.t, err)
	return pid
}

func TestJobGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	j := startJob(t, 0, "a:1")
	j.size(1)
	root := j.pid(0)
	j.list("a:2 b:2")
	s := j.size(4)
	for i, r := range s.Ranks {
		must.Eq(t, i/2, strings.Compare(r.Host[:1], "a"), must.Sprint("ranks are contiguous by host"))
		must.Eq(t, i%2, r.Slot)
	}
	must.Eq(t, root, j.pid(0), must.Sprint("rank 0 was not restarted"))
	j.list("a:1 b:1")
	j.size(2)
	must.Eq(t, root, j.pid(0))
	j.list("b:1 c:1")
	s = j.until("b and c", func(s *wire.Status) bool { return s.Size == 2 && strings.HasPrefix(s.Ranks[1].Host, "c") })
	must.StrHasPrefix(t, "b", s.Ranks[0].Host, must.Sprint("the one that holds the state leads the ring"))
}

func TestJobSurvivesDeaths(t *testing.T) {
	t.Parallel()
	j := startJob(t, 0, "a:1 b:1 c:1", "-np", "3")
	s := j.size(3)
	for _, rank := range []int{2, 0} {
		resets := s.Resets
		must.NoError(t, syscall.Kill(j.pid(rank), syscall.SIGKILL))
		j.until("the survivors to go on", func(s *wire.Status) bool { return s.Resets > resets })
		s = j.until("the dead one to be back", func(s *wire.Status) bool { return s.Resets > resets+1 && s.Phase == "training" && s.Size == 3 })
	}
}

func TestJobCompletes(t *testing.T) {
	t.Parallel()
	j := startJob(t, 100, "a:1 b:1", "-np", "2")
	r := <-j.result
	must.Eq(t, 0, r.Code, must.Sprint(r.Reason))
}

func TestJobFailsClearly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command []string
		flags   []string
		want    string
	}{
		"at import":             {[]string{"sh", "-c", "echo 'ImportError: no module named torch' >&2; exit 1"}, []string{"-slot-restarts", "0"}, "no module named torch"},
		"with too few hosts":    {[]string{"true"}, []string{"-np", "2", "-min-np", "2", "-elastic-timeout", "1"}, "waited 1s for 2 processes, there are 1"},
		"without hosts":         {[]string{"true"}, []string{"--host-discovery-script", "true", "-elastic-timeout", "1"}, "waited 1s for a host"},
		"before any ring is up": {[]string{"sh", "-c", "exit 3"}, []string{"-slot-restarts", "1"}, "exit code 3"},
		"killed":                {[]string{"sh", "-c", "echo UserWarning: nothing >&2; kill -9 $$"}, []string{"-slot-restarts", "0"}, "signal 9 (killed); its last words: \"UserWarning: nothing\""},
		"killed below a shell":  {[]string{"sh", "-c", "exit 137"}, []string{"-slot-restarts", "0"}, "exit code 137"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := startJobCommand(t, c.command, c.flags)
			r := <-j.result
			must.Eq(t, 1, r.Code)
			must.StrContains(t, r.Reason, c.want)
			must.StrNotContains(t, r.Reason, "memory", must.Sprint("no one has looked"))
		})
	}
}

func startJobCommand(t *testing.T, command, flags []string) *job {
	t.Helper()
	args := append([]string{"-np", "1", "--min-np", "1", "-debounce", "50ms", "--host-discovery-script", "echo a:1"}, flags...)
	o, err := parseFlags(horovodrun, append(append(args, "--"), command...), io.Discard)
	must.NoError(t, err)
	j := &job{t: t, r: newLauncher(horovodrun.Framework, o), result: make(chan host.Result, 1)}
	j.r.out, j.r.err = io.Discard, io.Discard
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var wg sync.WaitGroup
	wg.Go(func() { j.result <- j.r.run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return j
}

// Without hosts the job cannot continue once the time to wait is over.
func TestJobEndsWhenItsLastHostHasLeft(t *testing.T) {
	t.Parallel()
	j := startJob(t, 0, "a:1", "-elastic-timeout", "10")
	j.size(1)
	j.list("")
	r := <-j.result
	must.Eq(t, 1, r.Code)
	must.StrContains(t, r.Reason, "waited 10s for a host")
}

// A host that is listed again while its processes are in a step is kept, although it was
// about to leave.
func TestAHostThatIsListedAgainIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (*job, func(int) int){
		"horovod": func() (*job, func(int) int) { j := startJob(t, 0, "a:1 b:1", "-np", "2"); return j, j.pid },
		"kolo.torch": func() (*job, func(int) int) {
			j := startJobOf(t, torchrun, nil, 0, "a:1 b:1", "-np", "2")
			return j, j.torchPID
		},
		"restart": func() (*job, func(int) int) { j := startScript(t, 0, "a:1 b:1", "-np", "2"); return j, j.torchPID },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, pid := start()
			s := j.size(2)
			root := pid(0)
			must.NoError(t, syscall.Kill(root, syscall.SIGSTOP)) // a long step
			t.Cleanup(func() { _ = syscall.Kill(root, syscall.SIGCONT) })
			host := func(name string) (leaving, there bool) {
				j.r.mu.Lock()
				defer j.r.mu.Unlock()
				run := j.r.hosts[elastic.HostID(name)]
				return run != nil && run.leaving, run != nil
			}
			j.list("a:1")
			j.until("the host to leave", func(*wire.Status) bool { leaving, _ := host("b"); return leaving })
			j.list("a:1 b:1")
			j.until("another host of its name", func(*wire.Status) bool { _, there := host("b.2"); return there })
			_, there := host("b")
			must.True(t, there, must.Sprint("it was not waited for"))
			must.NoError(t, syscall.Kill(root, syscall.SIGCONT))
			j.until("a ring with it", func(now *wire.Status) bool {
				return now.Phase == "training" && now.Size == 2 && now.Generation > s.Generation && now.Ranks[1].Host == "b.2"
			})
		})
	}
}

// A discovery script may list nothing for a moment, while the service that it asks
// restarts.
func TestAnEmptyListCountsWhenItStays(t *testing.T) {
	t.Parallel()
	j := startJob(t, 0, "a:1", "-elastic-timeout", "10")
	s := j.size(1)
	j.list("")
	time.Sleep(time.Second)
	j.list("a:1")
	time.Sleep(emptyTime)
	now := j.until("steps", func(now *wire.Status) bool { return now.Step != nil })
	must.Len(t, 1, now.Ranks, must.Sprint("the host has left"))
	must.Eq(t, s.Generation, now.Generation, must.Sprint("the ring did not change"))
	must.Eq(t, "a", now.Ranks[0].Host)
}

// The leader is rebuilt from what hosts report, in the middle of training.
func TestALeaderIsReplacedUnnoticed(t *testing.T) {
	t.Parallel()
	j := startJob(t, 0, "a:1 b:1", "-np", "2")
	j.size(2)
	before := j.until("a step", func(s *wire.Status) bool { return s.Step != nil })
	next := leader.New(leader.Options{Config: j.r.config, Term: 2, Exchange: horovod.NewExchange, Logger: j.r.log})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() { _ = next.Run(ctx) })
	j.r.mu.Lock()
	var hosts []*runningHost
	for _, h := range j.r.hosts {
		hosts = append(hosts, h)
	}
	j.r.mu.Unlock()
	for _, h := range hosts {
		up, down := wire.Pipe()
		wg.Go(func() { _ = next.Serve(down) })
		wg.Go(func() { _ = h.host.Attach(up) })
	}
	end := time.Now().Add(time.Minute)
	for {
		s := next.Status(ctx)
		if s.Phase == "training" && s.Step != nil && *s.Step > *before.Step+10 {
			must.Eq(t, before.Generation, s.Generation, must.Sprint("the ring went on"))
			break
		}
		must.True(t, time.Now().Before(end), must.Sprintf("%+v", s))
		time.Sleep(5 * time.Millisecond)
	}
	for _, h := range hosts {
		if string(h.id) == before.Ranks[1].Host {
			h.host.Leave(time.Minute)
		}
	}
	for {
		if s := next.Status(ctx); s.Phase == "training" && s.Size == 1 {
			break
		}
		must.True(t, time.Now().Before(end))
		time.Sleep(5 * time.Millisecond)
	}
}
