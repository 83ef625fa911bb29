// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package eventtail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

const (
	agentDir  = "local/kolo"
	eventPath = agentDir + "/events.jsonl"
	// patience is how long tests wait for what should take no time.
	patience = time.Minute
)

// agentFile is a task directory with an event file, and the events that were passed
// on.
type agentFile struct {
	dir    string
	now    time.Time
	passed []string
	last   Event
}

func newAgentFile(t testing.TB) *agentFile {
	dir := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, agentDir), 0o755))
	return &agentFile{dir: dir, now: time.Date(2026, 11, 20, 21, 0, 5, 0, time.UTC)}
}

func (a *agentFile) tail() *Tail {
	tail := New(Options{
		Dir: a.dir, Path: eventPath, Note: a.dir + ".offset", Logger: hclog.NewNullLogger(),
		Emit: func(e Event) error {
			a.passed, a.last = append(a.passed, e.Message), e
			return nil
		},
	})
	tail.now = func() time.Time { return a.now }
	return tail
}

func (a *agentFile) append(t testing.TB, text string) {
	f, err := os.OpenFile(filepath.Join(a.dir, eventPath), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must.NoError(t, err)
	_, err = f.WriteString(text)
	must.NoError(t, err)
	must.NoError(t, f.Close())
}

func TestTailPassesWholeLines(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	tail.poll(t.Context()) // no file yet
	a.append(t, `{"time":"2026-11-20T21:00:00Z","message":"ring 3: ranks 2-3 of 8, gap 0.21 s"}`+"\n"+`{"mess`)
	tail.poll(t.Context())
	must.Eq(t, []string{"ring 3: ranks 2-3 of 8, gap 0.21 s"}, a.passed)
	must.Eq(t, "2026-11-20T21:00:00Z", a.last.Time.Format(time.RFC3339))
	a.append(t, `age":"two"}`+"\n"+`{"message":"three`)
	must.Eq(t, "two", tail.Drain(t.Context()))
	must.Eq(t, []string{"ring 3: ranks 2-3 of 8, gap 0.21 s", "two"}, a.passed)
	must.Eq(t, a.now, a.last.Time, must.Sprint("an event without a time happened now"))
}

func TestTailOfAnotherPluginGoesOn(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, `{"message":"one"}`+"\n")
	first := a.tail()
	first.restore()
	first.poll(t.Context())
	a.append(t, `{"message":"two"}`+"\n")
	second := a.tail()
	second.restore()
	second.poll(t.Context())
	must.Eq(t, []string{"one", "two"}, a.passed)
}

func TestTailBeginsAnewWithTheFile(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	a.append(t, `{"message":"the first run of this task"}`+"\n")
	tail.poll(t.Context())
	must.NoError(t, os.Truncate(filepath.Join(a.dir, eventPath), 0))
	a.append(t, `{"message":"again"}`+"\n")
	tail.poll(t.Context())
	must.Eq(t, []string{"the first run of this task", "again"}, a.passed)
}

func TestTailPassesOverWhatIsNoEvent(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, "Traceback\n[]\n{}\n\n"+strings.Repeat("x", 3*maxLine)+"\n"+`{"message":"good"}`+"\n")
	a.tail().poll(t.Context())
	must.Eq(t, []string{"good"}, a.passed)
}

func TestTailShortensAndCleans(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, `{"message":"a\nb\tc"}`+"\n"+`{"message":"`+strings.Repeat("é", 2000)+`"}`+"\n")
	a.tail().poll(t.Context())
	must.Eq(t, "a b c", a.passed[0])
	must.Eq(t, strings.Repeat("é", plaintext.Limit/2)+" …", a.passed[1])
}

func TestTailHoldsBackAFlood(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	for i := range burst + 5 {
		a.append(t, fmt.Sprintf(`{"message":"%d"}`+"\n", i))
	}
	tail.poll(t.Context())
	must.Len(t, burst, a.passed)
	a.now = a.now.Add(refill)
	a.append(t, `{"message":"later"}`+"\n")
	tail.poll(t.Context())
	must.Eq(t, "later (5 events before this one were left out)", a.passed[burst])
}

func TestTailStaysInTheTaskDirectory(t *testing.T) {
	a := newAgentFile(t)
	outside := filepath.Join(t.TempDir(), "secret")
	must.NoError(t, os.WriteFile(outside, []byte(`{"message":"secret"}`+"\n"), 0o600))
	must.NoError(t, os.Symlink(outside, filepath.Join(a.dir, eventPath)))
	a.tail().poll(t.Context())
	must.NoError(t, os.RemoveAll(filepath.Join(a.dir, agentDir)))
	must.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(outside), "events.jsonl"), []byte(`{"message":"secret"}`+"\n"), 0o600))
	must.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(a.dir, agentDir)))
	a.tail().poll(t.Context())
	must.SliceEmpty(t, a.passed)
}

// TestTailOfAnEndlessFile has a file as from `truncate -s 1T`: all holes without a
// line. Lines after the holes are read.
func TestTailOfAnEndlessFile(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, `{"message":"one"}`+"\n")
	must.NoError(t, os.Truncate(filepath.Join(a.dir, eventPath), 1<<40))
	a.append(t, "\n"+`{"message":"two"}`+"\n")
	tail := a.tail()
	must.Eq(t, "two", bounded(t, func() string { return tail.Drain(t.Context()) }))
	a.append(t, `{"message":"three"}`+"\n")
	must.Eq(t, "three", tail.Drain(t.Context()))
}

func TestTailOfAPipe(t *testing.T) {
	a := newAgentFile(t)
	must.NoError(t, syscall.Mkfifo(filepath.Join(a.dir, eventPath), 0o666))
	must.Eq(t, "", bounded(t, func() string { return a.tail().Drain(t.Context()) }))
}

// TestTailOfAPipeThatComesAndGoes changes the event file between the check and the
// opening. Reading must not block in any case.
func TestTailOfAPipeThatComesAndGoes(t *testing.T) {
	a := newAgentFile(t)
	path := filepath.Join(a.dir, eventPath)
	var swaps sync.WaitGroup
	stop := make(chan struct{})
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(path+".file", []byte(`{"message":"one"}`+"\n"), 0o600)
			_ = os.Rename(path+".file", path)
			_ = syscall.Mkfifo(path+".pipe", 0o600)
			_ = os.Rename(path+".pipe", path)
		}
	})
	tail := a.tail()
	bounded(t, func() string {
		for range 5000 {
			tail.poll(t.Context())
		}
		return ""
	})
	close(stop)
	swaps.Wait()
}

func TestTailEndsWithItsContext(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, strings.Repeat(`{"message":"one"}`+"\n", 10))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.tail().poll(ctx)
	must.SliceEmpty(t, a.passed)
}

func bounded(t *testing.T, f func() string) string {
	t.Helper()
	done := make(chan string, 1)
	go func() { done <- f() }()
	select {
	case s := <-done:
		return s
	case <-time.After(patience):
		t.Fatal("does not end")
		return ""
	}
}

func TestTailGoesOnWhenNobodyListens(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	tail.o.Emit = func(Event) error { return errors.New("nobody") }
	a.append(t, `{"message":"one"}`+"\n")
	must.Eq(t, "one", tail.Drain(t.Context()))
}

// FuzzTail feeds what a task may write to its event file, in two pieces.
func FuzzTail(f *testing.F) {
	f.Add([]byte(`{"message":"one"}`+"\n"+`{"mess`), []byte(`age":"two"}`+"\n"))
	f.Add([]byte("\x00\xff\n\n{"), []byte(`"message":1}`))
	f.Add([]byte(strings.Repeat("y", maxLine)), []byte("\n{\"message\":\"z\"}\n"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a := newAgentFile(t)
		tail := a.tail()
		tail.o.Emit = func(e Event) error {
			a.passed = append(a.passed, e.Message)
			checkEvent(t, e)
			return nil
		}
		a.append(t, string(one))
		tail.poll(t.Context())
		a.append(t, string(two))
		tail.poll(t.Context())
		at := tail.offset
		must.LessEq(t, int64(len(one)+len(two)), at)
		n := len(a.passed)
		tail.poll(t.Context())
		must.Eq(t, at, tail.offset, must.Sprint("nothing new, nothing read"))
		must.Len(t, n, a.passed)
	})
}
