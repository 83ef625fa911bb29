// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must.NoError(t, err)
	_, err = f.WriteString(text)
	must.NoError(t, err)
	must.NoError(t, f.Close())
}

func TestProgressFile(t *testing.T) {
	p := progressFile{path: filepath.Join(t.TempDir(), "progress")}
	must.SliceEmpty(t, p.read(), must.Sprint("not there yet"))

	appendTo(t, p.path, `{"step": 1, "loss": 0.5, "time": 100.25, "First": 7}`+"\n"+`{"step": 2`)
	lines := p.read()
	must.Len(t, 1, lines)
	must.Eq(t, 1.0, *lines[0].Step)
	must.Eq(t, 0.5, *lines[0].Loss)
	must.Greater(t, 1e9, lines[0].At, must.Sprint("the time the file was written, not what a script may log as time"))
	must.Nil(t, lines[0].Epoch)
	must.Nil(t, lines[0].First)
	must.SliceEmpty(t, p.read(), must.Sprint("half a line"))

	appendTo(t, p.path, `, "epoch": 3}`+"\nnot json\n[1]\n"+`{"step": "x"}`+"\n"+strings.Repeat("z", maxLine+1)+"\n"+`{"step": 4}`+"\n")
	lines = p.read()
	must.Len(t, 2, lines, must.Sprint("what is no progress is skipped"))
	must.Eq(t, 2.0, *lines[0].Step)
	must.Eq(t, 4.0, *lines[1].Step)

	appendTo(t, p.path, `{"step": 5, "loss": NaN}`+"\n"+`{"step": 6, "loss": -Infinity, "epoch": 1e999}`+"\n"+`{"step": 7, "loss": "inf"}`+"\nnull\n{}\n")
	lines = p.read()
	must.Len(t, 3, lines, must.Sprint("a loss that is no number leaves the rest of its line alone"))
	for i, l := range lines {
		must.Eq(t, float64(5+i), *l.Step)
		must.Nil(t, l.Loss)
		must.Nil(t, l.Epoch)
	}

	must.NoError(t, os.WriteFile(p.path, []byte(`{"step": 9}`+"\n"), 0o600))
	lines = p.read()
	must.Len(t, 1, lines, must.Sprint("the script began the file again"))
	must.Eq(t, 9.0, *lines[0].Step)
}

// A script may write its steps and its loss on lines of their own.
func TestStepsAreNotLostAmongOtherLines(t *testing.T) {
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, Logger: hclog.NewNullLogger()})
	s := h.slots[0]
	s.State, s.progress.path = elastic.InRing, filepath.Join(t.TempDir(), "progress")
	appendTo(t, s.progress.path, `{"step": 1}`+"\n"+`{"step": 2}`+"\n"+`{"loss": 0.5}`+"\n")
	h.readProgress(s)
	must.Eq(t, 2.0, *s.latest.Step)
	appendTo(t, s.progress.path, `{"loss": 0.4}`+"\n")
	h.readProgress(s)
	must.Eq(t, 2.0, *s.latest.Step)
	must.Eq(t, 0.4, *s.latest.Loss)
}

// Steps are seen as numbers or as a file that is touched. The distance between the numbers
// shows whether the last number is that of the last step.
func TestStepsWithAndWithoutNumbers(t *testing.T) {
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, Logger: hclog.NewNullLogger()})
	s := h.slots[0]
	s.State, s.progress.path = elastic.InRing, filepath.Join(t.TempDir(), "progress")
	touch := func(at int64) {
		appendTo(t, s.progress.stepFile(), "")
		must.NoError(t, os.Chtimes(s.progress.stepFile(), time.Unix(at, 0), time.Unix(at, 0)))
		h.readProgress(s)
	}
	appendTo(t, s.progress.path, `{"loss": 0.5}`+"\n")
	h.readProgress(s)
	must.Zero(t, s.latest.SteppedAt, must.Sprint("no step"))
	touch(100)
	touch(101)
	must.Eq(t, 100, s.latest.FirstSteppedAt)
	must.Eq(t, 101, s.latest.SteppedAt)
	must.Eq(t, 0.5, *s.latest.Loss)

	appendTo(t, s.progress.path, `{"step": 7}`+"\n"+`{"step": 8}`+"\n")
	h.readProgress(s)
	must.Eq(t, 1, s.latest.Every)
	must.Eq(t, 100, s.latest.FirstSteppedAt)
	must.Eq(t, s.latest.At, s.latest.SteppedAt)
	appendTo(t, s.progress.path, `{"step": 28}`+"\n")
	h.readProgress(s)
	must.Eq(t, 20, s.latest.Every)

	s.latest = wire.Progress{} // as in the next ring
	h.readProgress(s)
	must.Zero(t, s.latest.SteppedAt, must.Sprint("a step of the ring before"))
	must.NoError(t, os.Remove(s.progress.stepFile()))
	must.NoError(t, os.Symlink("/proc/self/stat", s.progress.stepFile()))
	h.readProgress(s)
	must.Zero(t, s.latest.SteppedAt, must.Sprint("no file of the script"))
}

// Progress that comes too soon after the last report is reported later, even without a
// further line, because the script may then be busy or hang.
func TestTheLastStepIsReported(t *testing.T) {
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, Logger: hclog.NewNullLogger()})
	leader := &leaderEnd{}
	h.session = leader
	s := h.slots[0]
	s.State, s.progress.path = elastic.InRing, filepath.Join(t.TempDir(), "progress")
	reported := func() (steps []float64) {
		for _, m := range leader.sent {
			steps = append(steps, *m.Progress.Step)
		}
		leader.sent = nil
		return steps
	}
	appendTo(t, s.progress.path, `{"step": 1}`+"\n")
	h.readProgress(s)
	must.Eq(t, []float64{1}, reported())
	appendTo(t, s.progress.path, `{"step": 2}`+"\n")
	s.sent = time.Now().Add(time.Hour)
	h.readProgress(s)
	must.SliceEmpty(t, reported(), must.Sprint("too soon"))
	s.sent = time.Time{}
	h.readProgress(s)
	must.Eq(t, []float64{2}, reported())
	h.readProgress(s)
	must.SliceEmpty(t, reported(), must.Sprint("it was reported"))
}

// A script that replaces its progress file with something else does not block the agent,
// which reads it every few milliseconds.
func TestProgressFileIsAFile(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"a pipe":           func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a device":         func(path string) error { return os.Symlink("/dev/zero", path) },
		"a link to itself": func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "progress")
			done := make(chan error, 1)
			go func() {
				p, err := newProgressFile(path)
				if err == nil {
					err = os.Remove(path)
				}
				if err == nil {
					err = replace(path)
				}
				if err == nil {
					must.SliceEmpty(t, p.read())
					_, err = newProgressFile(path) // of the slot's next process
				}
				done <- err
			}()
			select {
			case err := <-done:
				must.NoError(t, err)
			case <-time.After(time.Minute):
				t.Fatal("the agent hangs")
			}
		})
	}
}

// FuzzProgress appends anything to a progress file, in any pieces. The agent gets finite
// numbers only, and keeps no more than a line in memory.
func FuzzProgress(f *testing.F) {
	f.Add([]byte(`{"step": 1, "samples": 32, "epoch": 1, "total_steps": 90, "loss": 0.5}`+"\n"), uint8(10))
	f.Add([]byte(`{"step": 1e308, "loss": NaN}`+"\n"+`{"step": -9007199254740993}`+"\n"), uint8(1))
	f.Add([]byte("null\n[]\n{}\n\n\xff\n"+`{"step": {"step": 1}}`+"\n"), uint8(3))
	f.Add(bytes.Repeat([]byte("["), 1<<12), uint8(200))
	f.Add([]byte(`{"step": 1, "last": [[5, 0.14], [1e300, 1], [0.5, 1], [-1, 1], [1, -1], [2], [3, 1e300]]}`+"\n"+`{"step": 2, "last": 7}`+"\n"), uint8(200))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		p, err := newProgressFile(filepath.Join(t.TempDir(), "progress"))
		must.NoError(t, err)
		file, err := os.OpenFile(p.path, os.O_APPEND|os.O_WRONLY, 0)
		must.NoError(t, err)
		defer func() { _ = file.Close() }()
		s := &slot{SlotReport: elastic.SlotReport{State: elastic.InRing}}
		step := max(1, len(text)*int(piece)/256)
		for ; len(text) > 0; text = text[min(step, len(text)):] {
			_, err := file.Write(text[:min(step, len(text))])
			must.NoError(t, err)
			lines := p.read()
			must.LessEq(t, maxLine, len(p.rest))
			if len(lines) == 0 {
				continue
			}
			for _, l := range lines {
				s.take(l)
			}
			must.LessEq(t, wire.MaxLast, len(s.latest.Last))
			s.latest.Bound()
			for _, l := range s.latest.Last {
				must.True(t, l.Rank >= 0 && l.Behind >= 0)
			}
			for _, v := range []*float64{s.latest.Step, s.latest.Samples, s.latest.Epoch, s.latest.TotalSteps, s.latest.First} {
				must.True(t, v == nil || math.Abs(*v) <= wire.MaxCount)
			}
		}
	})
}

// A host passes on which rank arrived last in each step since its last message, and no more
// than the newest of them.
func TestLastIsPassedOnOnce(t *testing.T) {
	line := func(text string) wire.Progress {
		p, ok := wire.ParseProgress([]byte(text))
		must.True(t, ok)
		return p
	}
	s := &slot{SlotReport: elastic.SlotReport{State: elastic.InRing}}
	s.take(line(`{"step": 1, "last": [[5, 0.25], [2, 0.5]]}`))
	s.take(line(`{"step": 2}`))
	s.take(line(`{"step": 3, "last": [[1, 1], [0.5, 1], ["x", 1]]}`))
	s.take(line(`{"step": 4, "last": [[0.5, 1], [-1, 1], [1, -1], [1e300, 1], [4, 2, 9], [3]]}`))
	must.Eq(t, []wire.Last{{Rank: 5, Behind: 0.25}, {Rank: 2, Behind: 0.5}, {Rank: 4, Behind: 2}, {Rank: 3}}, s.latest.Last)
	for range 2 * wire.MaxLast {
		s.take(line(`{"step": 5, "last": [[7, 1]]}`))
	}
	must.Len(t, wire.MaxLast, s.latest.Last)
	must.Eq(t, wire.Last{Rank: 7, Behind: 1}, s.latest.Last[0])

	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, Logger: hclog.NewNullLogger()})
	h.sendProgress(s)
	must.SliceEmpty(t, s.latest.Last)
	_, ok := wire.ParseProgress([]byte(`{"last": [[1, 1]]}`))
	must.False(t, ok, must.Sprint("it is part of a step's report"))
}
