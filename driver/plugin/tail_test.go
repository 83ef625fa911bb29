// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// agentFile is a task directory with an event file, and what was told of it.
type agentFile struct {
	dir  string
	now  time.Time
	told []string
	last *drivers.TaskEvent
}

func newAgentFile(t testing.TB) *agentFile {
	dir := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, agentDir), 0o755))
	return &agentFile{dir: dir, now: time.Unix(1e9, 0)}
}

func (a *agentFile) tail() *tail {
	return &tail{
		taskDir: a.dir,
		emit: func(e *drivers.TaskEvent) error {
			a.told, a.last = append(a.told, e.Message), e
			return nil
		},
		event:  func() *drivers.TaskEvent { return &drivers.TaskEvent{TaskID: "t"} },
		now:    func() time.Time { return a.now },
		logger: hclog.NewNullLogger(),
		tokens: eventBurst,
		filled: a.now,
	}
}

func (a *agentFile) append(t testing.TB, text string) {
	f, err := os.OpenFile(filepath.Join(a.dir, eventPath), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must.NoError(t, err)
	_, err = f.WriteString(text)
	must.NoError(t, err)
	must.NoError(t, f.Close())
}

func TestTailTellsWholeLines(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	tail.poll() // no file yet
	a.append(t, `{"time":"2026-11-20T21:00:00Z","message":"ring 3: ranks 2-3 of 8, gap 0.21 s","annotations":{"ring":"3"}}`+"\n"+`{"mess`)
	tail.poll()
	must.Eq(t, []string{"ring 3: ranks 2-3 of 8, gap 0.21 s"}, a.told)
	must.Eq(t, map[string]string{"ring": "3"}, a.last.Annotations)
	must.Eq(t, "2026-11-20T21:00:00Z", a.last.Timestamp.Format(time.RFC3339))
	a.append(t, `age":"two"}`+"\n"+`{"message":"three`)
	must.Eq(t, "two", tail.drain())
	must.Eq(t, []string{"ring 3: ranks 2-3 of 8, gap 0.21 s", "two"}, a.told)
	must.Eq(t, a.now, a.last.Timestamp, must.Sprint("an event without a time happened now"))
}

func TestTailOfAnotherPluginGoesOn(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, `{"message":"one"}`+"\n")
	first := a.tail()
	first.restore()
	first.poll()
	a.append(t, `{"message":"two"}`+"\n")
	second := a.tail()
	second.restore()
	second.poll()
	must.Eq(t, []string{"one", "two"}, a.told)
}

func TestTailBeginsAnewWithTheFile(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	a.append(t, `{"message":"the first run of this task"}`+"\n")
	tail.poll()
	must.NoError(t, os.Truncate(filepath.Join(a.dir, eventPath), 0))
	a.append(t, `{"message":"again"}`+"\n")
	tail.poll()
	must.Eq(t, []string{"the first run of this task", "again"}, a.told)
}

func TestTailPassesOverWhatIsNoEvent(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, "Traceback\n[]\n{}\n\n"+strings.Repeat("x", 3*maxEventLine)+"\n"+`{"message":"good"}`+"\n")
	a.tail().poll()
	must.Eq(t, []string{"good"}, a.told)
}

func TestTailShortensAndCleans(t *testing.T) {
	a := newAgentFile(t)
	a.append(t, `{"message":"a\nb\tc"}`+"\n"+`{"message":"`+strings.Repeat("é", 2000)+`"}`+"\n")
	a.tail().poll()
	must.Eq(t, "a b c", a.told[0])
	must.Eq(t, strings.Repeat("é", maxMessage/2)+" …", a.told[1])
}

func TestTailHoldsBackAFlood(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	for i := range eventBurst + 5 {
		a.append(t, fmt.Sprintf(`{"message":"%d"}`+"\n", i))
	}
	tail.poll()
	must.Len(t, eventBurst, a.told)
	a.now = a.now.Add(eventRefill)
	a.append(t, `{"message":"later"}`+"\n")
	tail.poll()
	must.Eq(t, "later (5 events before this one were left out)", a.told[eventBurst])
}

func TestTailStaysInTheTaskDirectory(t *testing.T) {
	a := newAgentFile(t)
	outside := filepath.Join(t.TempDir(), "secret")
	must.NoError(t, os.WriteFile(outside, []byte(`{"message":"secret"}`+"\n"), 0o600))
	must.NoError(t, os.Symlink(outside, filepath.Join(a.dir, eventPath)))
	a.tail().poll()
	must.NoError(t, os.RemoveAll(filepath.Join(a.dir, agentDir)))
	must.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(outside), "events.jsonl"), []byte(`{"message":"secret"}`+"\n"), 0o600))
	must.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(a.dir, agentDir)))
	a.tail().poll()
	must.SliceEmpty(t, a.told)
}

func TestTailGoesOnWhenNobodyListens(t *testing.T) {
	a := newAgentFile(t)
	tail := a.tail()
	tail.emit = func(*drivers.TaskEvent) error { return errors.New("nobody") }
	a.append(t, `{"message":"one"}`+"\n")
	must.Eq(t, "one", tail.drain())
}

// FuzzTail feeds whatever a task may write to its event file, in two pieces.
func FuzzTail(f *testing.F) {
	f.Add([]byte(`{"message":"one"}`+"\n"+`{"mess`), []byte(`age":"two"}`+"\n"))
	f.Add([]byte("\x00\xff\n\n{"), []byte(`"message":1}`))
	f.Add([]byte(strings.Repeat("y", maxEventLine)), []byte("\n{\"message\":\"z\"}\n"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a := newAgentFile(t)
		tail := a.tail()
		a.append(t, string(one))
		tail.poll()
		a.append(t, string(two))
		tail.poll()
		for _, message := range a.told {
			must.NotEq(t, "", message)
			must.LessEq(t, maxMessage+64, len(message))
			must.StrNotContains(t, message, "\n")
		}
		at := tail.offset
		must.LessEq(t, int64(len(one)+len(two)), at)
		n := len(a.told)
		tail.poll()
		must.Eq(t, at, tail.offset, must.Sprint("nothing new, nothing read"))
		must.Len(t, n, a.told)
	})
}
