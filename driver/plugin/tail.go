// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
)

const (
	// tailInterval is how soon an event is told. Looking is one stat.
	tailInterval = 250 * time.Millisecond
	// maxEventLine is the longest line read as an event.
	maxEventLine = 16 << 10
	// maxMessage is the longest message passed on.
	maxMessage = 1 << 10
	// eventBurst events at once, and one more every eventRefill, are passed on
	// for one task. Nomad sends each to its servers and keeps ten.
	eventBurst  = 20
	eventRefill = 2 * time.Second
)

// eventLine is one line of the agent's event file.
type eventLine struct {
	Time        time.Time         `json:"time"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// tail turns the lines that an agent appends to its event file into task
// events. How far it has come is kept beside the file, so that a restarted
// plugin neither repeats nor misses any; one that dies between telling and
// noting repeats the last few.
//
// The file belongs to the task's user: it is opened without leaving the task
// directory, and nothing it holds is more than text.
type tail struct {
	taskDir string
	// emit passes an event on; event fills in the task.
	emit  func(*drivers.TaskEvent) error
	event func() *drivers.TaskEvent
	now   func() time.Time

	logger hclog.Logger

	offset  int64
	last    string
	tokens  float64
	filled  time.Time
	skipped int
}

func (d *Driver) newTail(c *drivers.TaskConfig, logger hclog.Logger) *tail {
	return &tail{
		taskDir: c.TaskDir().Dir,
		emit:    d.events.EmitEvent,
		event: func() *drivers.TaskEvent {
			return &drivers.TaskEvent{TaskID: c.ID, TaskName: c.Name, AllocID: c.AllocID}
		},
		now:    time.Now,
		logger: logger,
		tokens: eventBurst,
		filled: time.Now(),
	}
}

// run tells events until ctx ends.
func (t *tail) run(ctx context.Context) {
	t.restore()
	ticker := time.NewTicker(tailInterval)
	defer ticker.Stop()
	for {
		t.poll()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// drain tells what is left once the agent has ended, and returns the last
// message of all. It must not overlap run.
func (t *tail) drain() string {
	t.poll()
	return t.last
}

// poll tells every complete line since the last time.
func (t *tail) poll() {
	root, err := os.OpenRoot(t.taskDir)
	if err != nil {
		return // the task directory is gone, and the task with it
	}
	defer func() { _ = root.Close() }()
	before := t.offset
	if err := t.read(root); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.logger.Debug("cannot read the agent's events", "error", err)
	}
	if t.offset != before {
		if err := t.save(root); err != nil {
			t.logger.Warn("cannot note which events were told; a restart will repeat them", "error", err)
		}
	}
}

func (t *tail) read(root *os.Root) error {
	fi, err := root.Lstat(eventPath)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", eventPath)
	}
	if fi.Size() < t.offset {
		t.offset = 0 // begun anew
	}
	if fi.Size() == t.offset {
		return nil
	}
	f, err := root.Open(eventPath)
	if err != nil {
		return err
	}
	defer f.Close()

	buf := make([]byte, maxEventLine)
	for {
		n, err := f.ReadAt(buf, t.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		whole := bytes.LastIndexByte(buf[:n], '\n') + 1
		switch {
		case whole > 0:
			for line := range bytes.Lines(buf[:whole]) {
				t.tell(line)
			}
			t.offset += int64(whole)
		case n == len(buf):
			t.offset += int64(n) // no event is that long: pass over it
		default:
			return nil // the rest of the last line is still to come
		}
	}
}

// tell passes one line on, unless there were too many of late.
func (t *tail) tell(line []byte) {
	var e eventLine
	if err := json.Unmarshal(line, &e); err != nil || e.Message == "" {
		t.logger.Debug("not an event", "line", string(line))
		return
	}
	e.Message = oneLine(e.Message)
	t.last = e.Message
	now := t.now()
	t.tokens = min(eventBurst, t.tokens+now.Sub(t.filled).Seconds()/eventRefill.Seconds())
	t.filled = now
	if t.tokens < 1 {
		t.skipped++
		return
	}
	t.tokens--

	event := t.event()
	event.Timestamp, event.Message, event.Annotations = e.Time, e.Message, e.Annotations
	if event.Timestamp.IsZero() {
		event.Timestamp = now
	}
	if t.skipped > 0 {
		event.Message += fmt.Sprintf(" (%d events before this one were left out)", t.skipped)
		t.skipped = 0
	}
	if err := t.emit(event); err != nil {
		t.logger.Debug("event not told", "message", event.Message, "error", err)
	}
}

// oneLine makes a message fit for a task event.
func oneLine(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + " …"
	}
	return s
}

// restore reads how far an earlier plugin has come.
func (t *tail) restore() {
	root, err := os.OpenRoot(t.taskDir)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	data, err := root.ReadFile(offsetPath)
	if err != nil {
		return // nothing was told yet
	}
	offset, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || offset < 0 {
		t.logger.Warn("cannot tell which events were told; telling all", "offset", string(data))
		return
	}
	t.offset = offset
}

func (t *tail) save(root *os.Root) error {
	const next = offsetPath + ".new"
	if err := root.WriteFile(next, []byte(strconv.FormatInt(t.offset, 10)), 0o600); err != nil {
		return err
	}
	return root.Rename(next, offsetPath)
}
