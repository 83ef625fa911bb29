// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// replacing is a framework whose processes can't change their ring. The test decides when
// a process arrives.
type replacing struct {
	framework
	mu     sync.Mutex
	events []Events
	retire func(context.Context) error
}

func (*replacing) Standbys() bool { return true }

func (*replacing) Explain(line string) string {
	if strings.Contains(line, "no libuv") {
		return "start it otherwise"
	}
	return ""
}

func (f *replacing) NewEndpoint(_ bool, e Events) Endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	return &endpoint{&f.retire}
}

// arrive lets the last started process arrive.
func (f *replacing) arrive() {
	f.mu.Lock()
	e := f.events[len(f.events)-1]
	f.mu.Unlock()
	e.Notifiable()
	e.Arrived(true)
}

// stage is a host with such processes. The test is its leader.
type stage struct {
	t      *testing.T
	f      *replacing
	h      *Host
	dir    string // of the processes
	leader wire.LeaderEnd
	ring   uint64
	result chan Result
}

// newStage starts a host of two slots that run a shell command.
func newStage(t *testing.T, command string, change func(*config.Config)) *stage {
	t.Helper()
	s := &stage{t: t, f: &replacing{}, dir: t.TempDir(), result: make(chan Result, 1)}
	c := config.Config{Command: "sh", Args: []string{"-c", command}, Dir: s.dir, LogDir: s.dir, ProgressDir: s.dir, EventFile: filepath.Join(s.dir, "events"),
		Training: settings.Training{Slots: 2}}
	c.Restart.Checkpoint.Wait = settings.Duration(time.Minute)
	if change != nil {
		change(&c)
	}
	log, err := events.Open(c.EventFile, hclog.NewNullLogger())
	must.NoError(t, err)
	s.h = New(Options{Framework: s.f, Config: c, ID: "h", Events: log, Logger: hclog.NewNullLogger(), Stdout: io.Discard, Stderr: io.Discard})
	up, down := wire.Pipe()
	s.leader = down
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.result <- s.h.Run(ctx) })
	wg.Go(func() { _ = s.h.Attach(up) })
	t.Cleanup(func() { cancel(); down.Close(); wg.Wait(); log.Close() })
	must.Eq(t, 2, s.next("registration", func(m *wire.ToLeader) bool { return m.Register != nil }).Register.Info.Width)
	return s
}

// next waits for the first message to the leader that is accepts.
func (s *stage) next(what string, is func(*wire.ToLeader) bool) *wire.ToLeader {
	s.t.Helper()
	timer := time.AfterFunc(30*time.Second, s.leader.Close)
	defer timer.Stop()
	for {
		m, err := s.leader.Recv()
		must.NoError(s.t, err, must.Sprint(what))
		if is(m) {
			return m
		}
	}
}

func (s *stage) send(m *wire.ToAgent) { must.NoError(s.t, s.leader.Send(m)) }

func proc(local, incarnation int) elastic.Proc {
	return elastic.Proc{Slot: elastic.SlotID{Host: "h", Local: local}, Incarnation: incarnation}
}

func place(local int) elastic.Assignment {
	return elastic.Assignment{Size: 1, LocalRank: local % 2, LocalSize: 1, CrossSize: 1}
}

// start starts a process.
func (s *stage) start(p elastic.Proc) {
	s.send(&wire.ToAgent{Start: &elastic.Start{Proc: p, Assignment: place(p.Slot.Local)}})
}

// train starts a process and forms a ring of it.
func (s *stage) train(p elastic.Proc) {
	s.t.Helper()
	s.start(p)
	s.wrote(p)
	s.f.arrive()
	m := s.next("arrival", func(m *wire.ToLeader) bool { return m.Arrived != nil })
	must.Eq(s.t, elastic.SlotArrived{Proc: p, Restarts: true}, *m.Arrived)
	s.form(p)
}

func (s *stage) form(p elastic.Proc) {
	s.ring++
	s.send(&wire.ToAgent{Form: &elastic.Ring{Generation: s.ring, Term: 1, Members: []elastic.Member{{Proc: p, Assignment: place(p.Slot.Local)}}}})
}

// wrote waits for the first line of a new process, and returns it.
func (s *stage) wrote(p elastic.Proc) string {
	s.t.Helper()
	var text []byte
	s.until("output", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.dir, "started.*"))
		for _, f := range found {
			text, _ = os.ReadFile(f)
			if strings.Contains(string(text), "ready") {
				_ = os.Remove(f)
				return true
			}
		}
		return false
	})
	return string(text)
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		must.True(s.t, time.Now().Before(end), must.Sprint(what))
	}
}

func (s *stage) notify(p elastic.Proc) {
	s.send(&wire.ToAgent{Notify: &wire.Notify{Notify: elastic.Notify{Proc: p, Generation: s.ring}}})
}

func (s *stage) exited(p elastic.Proc) elastic.SlotExited {
	s.t.Helper()
	return s.next("exit", func(m *wire.ToLeader) bool { return m.Exited != nil && m.Exited.Proc == p }).Exited.SlotExited
}

// registered returns the host's registration with another leader.
func (s *stage) registered() elastic.HostInfo {
	got := make(chan elastic.HostInfo, 1)
	s.h.post(func() { got <- s.h.register().Info })
	return <-got
}

func (s *stage) events() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "events"))
	must.NoError(s.t, err)
	return string(text)
}

// started is the beginning of all scripts: it shows that the process runs, and its slot and
// incarnation.
const started = `echo "$KOLO_SLOT $KOLO_INCARNATION $(basename $KOLO_PROGRESS_FILE) ready" > started.$$; `

// forever is a script that reacts to no request.
const forever = started + `trap "" TERM USR1; while :; do sleep 0.05; done`

// saves is a script that ends with $STATUS when it is asked for a checkpoint.
const saves = started + `trap "echo saved > checkpoint; exit $STATUS" USR1; while :; do sleep 0.02; done`

func bySignal(name string) func(*config.Config) {
	return func(c *config.Config) { c.Restart.Checkpoint.Signal = name }
}

func TestAStandbyIsOfItsSlot(t *testing.T) {
	t.Parallel()
	s := newStage(t, forever, nil)
	s.start(proc(1, 1))
	must.StrHasPrefix(t, "1 1 progress-1.jsonl", s.wrote(proc(1, 1)))
	s.start(proc(3, 1))
	must.StrHasPrefix(t, "1 2 progress-3.jsonl", s.wrote(proc(3, 1)), must.Sprint("the second start of slot 1"))
	s.send(&wire.ToAgent{Stop: &elastic.Stop{Proc: proc(1, 1), Kill: true}})
	s.exited(proc(1, 1))
	s.start(proc(1, 2))
	must.StrHasPrefix(t, "1 3", s.wrote(proc(1, 2)))
}

func TestACheckpointIsRequestedOnce(t *testing.T) {
	t.Parallel()
	for status, success := range map[string]bool{"0": true, "7": false} {
		t.Run("status "+status, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, saves, func(c *config.Config) { bySignal("SIGUSR1")(c); c.Env = map[string]string{"STATUS": status} })
			p := proc(0, 1)
			s.train(p)
			s.notify(p)
			s.notify(p)
			ev := s.exited(p)
			must.Eq(t, success, ev.Success, must.Sprint(ev.Status))
			must.True(t, ev.Noticed)
			must.FileExists(t, filepath.Join(s.dir, "checkpoint"))
			info := s.registered()
			must.Eq(t, 1, info.Noticed)
			must.False(t, info.Completed, must.Sprint("the training goes on"))
			must.Eq(t, 0, info.Slots[0].Failures)
		})
	}
}

func TestOneThatExitsUnaskedHasCompleted(t *testing.T) {
	t.Parallel()
	s := newStage(t, started+`while [ ! -e finish ]; do sleep 0.02; done`, nil)
	s.train(proc(0, 1))
	must.NoError(t, os.WriteFile(filepath.Join(s.dir, "finish"), nil, 0o600))
	ev := s.exited(proc(0, 1))
	must.True(t, ev.Success)
	must.False(t, ev.Noticed)
	must.True(t, s.registered().Completed)
	must.Eq(t, 1, s.registered().CompletedIn)
}

// A process may exit with 0 before its host receives the request to ask it. The leader decides
// whether the training is complete.
func TestTheLeaderDecidesWhetherTrainingIsComplete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  *wire.ToAgent
		want Result
	}{
		"it ends the job":      {&wire.ToAgent{End: &elastic.End{Success: true, Reason: "complete"}}, Result{Reason: "complete", Completed: true}},
		"it fails the job":     {&wire.ToAgent{End: &elastic.End{Reason: "too few"}}, Result{Code: 1, Reason: "too few"}},
		"it releases the host": {&wire.ToAgent{Release: &elastic.ReleaseHost{Reason: "left"}}, Result{Reason: "left"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, started+`while [ ! -e finish ]; do sleep 0.02; done`, nil)
			s.train(proc(0, 1))
			must.NoError(t, os.WriteFile(filepath.Join(s.dir, "finish"), nil, 0o600))
			s.until("the exit", func() bool { return s.registered().Completed })
			s.send(c.end)
			must.Eq(t, c.want, <-s.result)
		})
	}
}

// Children of a process, such as its data loader, get no request.
func TestTheRequestIsForTheProcessAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t, started+`sh -c 'trap "touch worker" USR1; while :; do sleep 0.02; done' & trap "touch asked" USR1; while :; do sleep 0.02; done`, bySignal("SIGUSR1"))
	s.train(proc(0, 1))
	time.Sleep(100 * time.Millisecond) // until the traps are set
	s.notify(proc(0, 1))
	s.until("the request", func() bool { _, err := os.Stat(filepath.Join(s.dir, "asked")); return err == nil })
	time.Sleep(100 * time.Millisecond)
	must.FileNotExists(t, filepath.Join(s.dir, "worker"))
}

func TestOneThatDoesNotReactIsStopped(t *testing.T) {
	t.Parallel()
	s := newStage(t, forever, func(c *config.Config) { c.Restart.Checkpoint.Wait = settings.Duration(200 * time.Millisecond) })
	s.train(proc(0, 1))
	s.notify(proc(0, 1))
	must.StrContains(t, s.exited(proc(0, 1)).Status, "killed")
	must.StrContains(t, s.events(), "slot 0 has not ended in the time for its checkpoint")
	must.Eq(t, 0, s.registered().Slots[0].Failures)
}

// If the time to leave is shorter, it is the limit.
func TestALeavingHostWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	s := newStage(t, forever, nil)
	s.train(proc(0, 1))
	s.notify(proc(0, 1))
	s.h.Leave(stopTime + 300*time.Millisecond)
	must.Between(t, 1.5, s.next("leaving", func(m *wire.ToLeader) bool { return m.Leaving != nil }).Leaving.Within, 10)
	must.Between(t, 0.1, s.registered().LeavesIn, 10)
	must.StrContains(t, s.exited(proc(0, 1)).Status, "killed")
	must.StrContains(t, s.events(), "in the time for its checkpoint")
}

func TestARequestByFile(t *testing.T) {
	t.Parallel()
	s := newStage(t, started+`while [ ! -e stop ] || [ $KOLO_INCARNATION = 2 ]; do sleep 0.02; done`, func(c *config.Config) { c.Restart.Checkpoint.File = "stop" })
	file := filepath.Join(s.dir, "stop")
	s.train(proc(0, 1))
	s.start(proc(2, 1)) // the next one is held
	s.wrote(proc(2, 1))
	s.f.arrive()
	s.notify(proc(0, 1))
	must.True(t, s.exited(proc(0, 1)).Success)
	must.FileExists(t, file)
	s.form(proc(2, 1))
	s.until("the request to be withdrawn", func() bool { _, err := os.Stat(file); return err != nil })
}

func TestARequestByFileWithoutItsDirectoryIsReported(t *testing.T) {
	t.Parallel()
	s := newStage(t, forever, func(c *config.Config) {
		c.Restart.Checkpoint = settings.Checkpoint{File: "local/stop", Wait: settings.Duration(200 * time.Millisecond)}
	})
	s.train(proc(0, 1))
	s.notify(proc(0, 1))
	s.exited(proc(0, 1))
	must.StrContains(t, s.events(), "create its directory before training starts")
}

// A link or pipe that a neighbour puts in place of the file is neither followed nor waited
// for.
func TestARequestByFileIsNotMisled(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(victim, file string) error{
		"a link":             os.Symlink,
		"a link to nothing":  func(victim, file string) error { return os.Symlink(victim+".new", file) },
		"a pipe":             func(_, file string) error { return syscall.Mkfifo(file, 0o600) },
		"a directory":        func(_, file string) error { return os.Mkdir(file, 0o700) },
		"no such directory":  func(_, file string) error { return os.Remove(filepath.Dir(file)) },
		"a file with a text": func(_, file string) error { return os.WriteFile(file, []byte("text"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			victim, file := filepath.Join(dir, "victim"), filepath.Join(dir, "d", "stop")
			must.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
			must.NoError(t, os.WriteFile(victim, []byte("text"), 0o600))
			long := time.Now().Add(-time.Hour).Truncate(time.Second)
			must.NoError(t, os.Chtimes(victim, long, long))
			must.NoError(t, put(victim, file))
			before, _ := os.Lstat(file)
			err := touch(file)
			must.Eq(t, name != "a file with a text", err != nil, must.Sprint(err))
			info, err := os.Stat(victim)
			must.NoError(t, err)
			must.True(t, info.ModTime().Equal(long))
			must.FileNotExists(t, victim+".new")

			h := &Host{o: Options{Config: config.Config{Dir: dir, Restart: settings.Restart{Checkpoint: settings.Checkpoint{File: "d/stop"}}}}}
			h.withdrawRequest()
			after, _ := os.Lstat(file)
			must.Eq(t, before == nil, after == nil, must.Sprint("only an empty file is removed"))
		})
	}
}

// Otherwise the next process would see the request, and end at once.
func TestAProcessThatHasEndedIsNotAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spawner, err := process.NewSpawner("")
	must.NoError(t, err)
	defer spawner.Close()
	p, err := spawner.Start(process.Spec{Command: "true"})
	must.NoError(t, err)
	<-p.Done()
	h := &Host{o: Options{Config: config.Config{Dir: dir, Restart: settings.Restart{Checkpoint: settings.Checkpoint{File: "stop"}}}}}
	h.requestCheckpoint(&slot{proc: p})
	time.Sleep(100 * time.Millisecond)
	must.FileNotExists(t, filepath.Join(dir, "stop"))
}

// Without a signal, the process continues to its next regular checkpoint, which must be complete.
func TestAProcessIsStoppedAfterItsNextCheckpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, script string }{
		"in a file":      {"model", `while :; do echo step >> model.tmp; mv model.tmp model; sleep 2; done`},
		"often":          {"model", `while :; do echo step >> model.tmp; mv model.tmp model; sleep 0.6; done`},
		"in a directory": {"checkpoints", `mkdir checkpoints; while :; do echo step > checkpoints/$(date +%s%N); sleep 2; done`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, started+c.script, func(o *config.Config) { o.Restart.Checkpoint.Path = c.path })
			s.train(proc(0, 1))
			s.until("the first one", func() bool { _, err := os.Stat(filepath.Join(s.dir, c.path)); return err == nil })
			before := newest(filepath.Join(s.dir, c.path))
			s.notify(proc(0, 1))
			must.StrContains(t, s.exited(proc(0, 1)).Status, "terminated")
			must.Greater(t, before.modified, newest(filepath.Join(s.dir, c.path)).modified)
			must.StrNotContains(t, s.events(), "in the time for its checkpoint")
		})
	}
}

func TestACheckpointThatIsBeingWrittenIsNotComplete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, write string }{
		"in a file":                  {"model", "echo part >> model"},
		"in a directory's directory": {"checkpoints", "mkdir -p checkpoints/1; echo part >> checkpoints/1/model"},
		"by one long write":          {"model", "echo part >> model; touch -d @1 model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			spawner, err := process.NewSpawner("")
			must.NoError(t, err)
			defer spawner.Close()
			p, err := spawner.Start(process.Spec{Command: "sh", Dir: dir, Args: []string{"-c", "for i in 1 2 3 4 5 6 7 8; do " + c.write + "; sleep 0.3; done; sleep 60"}})
			must.NoError(t, err)
			begun, path := time.Now(), filepath.Join(dir, c.path)
			must.True(t, awaitChange(path, version{}, p))
			must.Greater(t, 2*time.Second, time.Since(begun))
			p.Stop(true)
			<-p.Done()
			must.False(t, awaitChange(path, newest(path), p), must.Sprint("it has ended"))
		})
	}
}

// A script may remove its last checkpoint before it writes the next.
func TestACheckpointThatIsRemovedIsNotComplete(t *testing.T) {
	t.Parallel()
	s := newStage(t, started+`echo old > model; trap "rm model; sleep 1.5; echo new > model; sleep 60 & wait" USR1; while :; do sleep 0.02; done`, func(c *config.Config) {
		bySignal("SIGUSR1")(c)
		c.Restart.Checkpoint.Path = "model"
	})
	s.train(proc(0, 1))
	s.until("the first one", func() bool { _, err := os.Stat(filepath.Join(s.dir, "model")); return err == nil })
	time.Sleep(100 * time.Millisecond) // until the trap is set
	s.notify(proc(0, 1))
	s.exited(proc(0, 1))
	text, err := os.ReadFile(filepath.Join(s.dir, "model"))
	must.NoError(t, err)
	must.Eq(t, "new\n", string(text))
}

func TestWithoutMemoryTheNextProcessWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, forever, func(c *config.Config) { c.Memory = 1 })
	s.train(proc(0, 1))
	s.start(proc(2, 1))
	m := s.next("arrival", func(m *wire.ToLeader) bool { return m.Arrived != nil })
	must.Eq(t, elastic.SlotArrived{Proc: proc(2, 1), Restarts: true}, *m.Arrived)
	must.StrContains(t, s.events(), "does not fit into the task's memory of 0 MiB")
	must.StrContains(t, s.events(), "raise the task's memory for two processes of a slot")
	info := s.registered()
	must.Eq(t, elastic.Arrived, info.Slots[2].State)
	must.True(t, info.Slots[2].Restarts)

	// It is not needed after all; and then it is.
	s.send(&wire.ToAgent{Stop: &elastic.Stop{Proc: proc(2, 1), Kill: true}})
	s.exited(proc(2, 1))
	s.start(proc(2, 2))
	s.next("arrival", func(m *wire.ToLeader) bool { return m.Arrived != nil })
	s.h.Signal(syscall.SIGUSR1) // reaches what runs
	s.send(&wire.ToAgent{Stop: &elastic.Stop{Proc: proc(0, 1), Kill: true}})
	s.exited(proc(0, 1))
	must.StrHasPrefix(t, "0", s.wrote(proc(2, 2)))
	s.form(proc(2, 2))
	s.until("the ring", func() bool { return s.registered().Slots[2].State == elastic.InRing })
	s.f.arrive() // the leader has had the arrival already
	must.Eq(t, 1, strings.Count(s.events(), "does not fit"))
}

func TestMemoryIsThatOfTheWholeTree(t *testing.T) {
	t.Parallel()
	own, mapped := treeMemory(os.Getpid())
	must.Greater(t, 1<<20, own)
	must.Greater(t, 1<<20, mapped)
	own, mapped = treeMemory(1 << 30)
	must.Eq(t, 0, own+mapped)
	must.Greater(t, 1<<20, fieldsOf("/proc/meminfo")["MemAvailable"])
	must.Eq(t, 0, fieldsOf("/proc/meminfo")["NoSuchField"])
	s := newStage(t, forever, func(c *config.Config) { c.Memory = 1 << 40 })
	s.train(proc(0, 1))
	s.start(proc(2, 1))
	s.wrote(proc(2, 1))
	must.StrNotContains(t, s.events(), "memory")
}

func TestAHostEndsWithAProcessThatWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, forever, func(c *config.Config) { c.Memory = 1 })
	s.train(proc(0, 1))
	s.start(proc(2, 1))
	s.next("arrival", func(m *wire.ToLeader) bool { return m.Arrived != nil })
	s.send(&wire.ToAgent{Release: &elastic.ReleaseHost{Host: "h", Reason: "done"}})
	select {
	case r := <-s.result:
		must.Eq(t, "done", r.Reason)
		s.result <- r
	case <-time.After(time.Minute):
		t.Fatal("the host did not end")
	}
}

func TestFailuresAreThoseOfTheSlot(t *testing.T) {
	t.Parallel()
	s := newStage(t, started+`while [ ! -e fail ]; do sleep 0.02; done; echo "RuntimeError: no libuv here" >&2; exit 1`, nil)
	s.start(proc(2, 1)) // fails before it arrives
	must.NoError(t, os.WriteFile(filepath.Join(s.dir, "fail"), nil, 0o600))
	must.StrContains(t, s.exited(proc(2, 1)).Status, "no libuv")
	must.StrContains(t, s.events(), "slot 0: start it otherwise")
	must.Eq(t, []int{1, 0, 1, 0}, s.failures())
	must.NoError(t, os.Remove(filepath.Join(s.dir, "fail")))
	s.wrote(proc(2, 1))

	s.train(proc(0, 1)) // ends because of a peer, as far as the host knows
	must.NoError(t, os.WriteFile(filepath.Join(s.dir, "fail"), nil, 0o600))
	must.False(t, s.exited(proc(0, 1)).Success)
	must.Eq(t, []int{1, 0, 1, 0}, s.failures())
	s.send(&wire.ToAgent{Failed: &elastic.Failed{Slot: proc(0, 1).Slot}})
	s.send(&wire.ToAgent{Failed: &elastic.Failed{Slot: elastic.SlotID{Host: "h", Local: 9}}})
	s.until("the failure to count", func() bool { return s.failures()[2] == 2 })
	must.Eq(t, []int{2, 0, 2, 0}, s.failures())
}

func (s *stage) failures() []int {
	var list []int
	for _, r := range s.registered().Slots {
		list = append(list, r.Failures)
	}
	return list
}

// When all hosts of a job are stopped at once, there is no leader, so each host asks its own
// processes.
func TestWithoutALeaderALeavingHostAsksItsProcesses(t *testing.T) {
	t.Parallel()
	s := newStage(t, saves, func(c *config.Config) { bySignal("SIGUSR1")(c); c.Env = map[string]string{"STATUS": "0"} })
	s.train(proc(0, 1))
	s.start(proc(2, 1))
	s.wrote(proc(2, 1))
	s.leader.Close()
	s.h.Leave(time.Minute)
	select {
	case r := <-s.result:
		must.Eq(t, Result{Reason: "the task was stopped"}, r)
		s.result <- r
	case <-time.After(time.Minute):
		t.Fatal("the host did not end")
	}
	must.FileExists(t, filepath.Join(s.dir, "checkpoint"))
}
