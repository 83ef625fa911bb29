// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
	"golang.org/x/sys/unix"
)

const (
	// tailInterval is how soon an event is told. Looking is one stat.
	tailInterval = 250 * time.Millisecond
	// maxPoll is the most that one look reads. An event file that grows faster
	// is not an agent's.
	maxPoll = 256 << 10
)

// tail turns the lines that an agent appends to its event file into task
// events. How far it has come is kept in a file of root's, so that a restarted
// plugin neither repeats nor misses any; one that dies between telling and
// noting repeats the last few.
//
// The event file belongs to the task's user, who may make anything of it: it is
// opened without leaving the task directory and without waiting, one look at it
// reads maxPoll bytes at most, and nothing it holds is more than text.
type tail struct {
	taskDir string
	// notePath is the file that keeps offset.
	notePath string
	// emit passes an event on; event fills in the task.
	emit  func(*drivers.TaskEvent) error
	event func() *drivers.TaskEvent
	now   func() time.Time

	logger hclog.Logger

	offset int64
	last   string
	flow   flow
	// warnOnce keeps a task from filling the client's log.
	warnOnce sync.Once
}

func (d *Driver) newTail(c *drivers.TaskConfig, logger hclog.Logger) *tail {
	return &tail{
		taskDir:  c.TaskDir().Dir,
		notePath: filepath.Join(privateDirsOf(c).state, offsetName),
		emit:     d.events.EmitEvent,
		event: func() *drivers.TaskEvent {
			return &drivers.TaskEvent{TaskID: c.ID, TaskName: c.Name, AllocID: c.AllocID}
		},
		now:    time.Now,
		logger: logger,
		flow:   newFlow(time.Now()),
	}
}

// run passes events on until ctx ends.
func (t *tail) run(ctx context.Context) {
	t.restore()
	ticker := time.NewTicker(tailInterval)
	defer ticker.Stop()
	for {
		t.poll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// drain passes on what is left once the agent has ended, and returns the last
// message of all. It must not overlap run.
func (t *tail) drain(ctx context.Context) string {
	t.poll(ctx)
	return t.last
}

// poll passes on every complete line since the last time.
func (t *tail) poll(ctx context.Context) {
	before := t.offset
	if err := t.read(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.logger.Debug("cannot read the agent's events", "error", err)
	}
	if t.offset != before {
		if err := t.save(); err != nil {
			t.logger.Warn("cannot note which events were passed on; a restart will repeat them", "error", err)
		}
	}
}

func (t *tail) read(ctx context.Context) error {
	f, size, err := t.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if size < t.offset {
		t.offset = 0 // begun again
	}
	if size-t.offset > maxPoll {
		t.warnOnce.Do(func() {
			t.logger.Warn("the event file grows faster than an agent's; parts of it are passed over", "bytes", size-t.offset-maxPoll)
		})
		t.offset = size - maxPoll
	}
	buf := make([]byte, maxEventLine)
	for t.offset < size && ctx.Err() == nil {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-t.offset)], t.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		whole := bytes.LastIndexByte(buf[:n], '\n') + 1
		switch {
		case whole > 0:
			for line := range bytes.Lines(buf[:whole]) {
				t.pass(line)
			}
			t.offset += int64(whole)
		case n == len(buf):
			t.offset += int64(n) // no event is that long: pass over it
		default:
			return nil // the rest of the last line is still to come
		}
	}
	return nil
}

// open opens the event file and says how long it is. Only an ordinary file at
// that very place will do: what is in a pipe, or behind a link, is something
// else's.
func (t *tail) open() (*os.File, int64, error) {
	root, err := os.OpenRoot(t.taskDir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }()
	there, err := root.Lstat(eventPath)
	if err != nil {
		return nil, 0, err
	}
	if !there.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file", eventPath)
	}
	// It may have been replaced since: the open must not wait for a pipe's writer.
	f, err := root.OpenFile(eventPath, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(there, opened) {
		err = fmt.Errorf("%s was replaced", eventPath)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, opened.Size(), nil
}

// pass passes one line on, unless there were too many of late.
func (t *tail) pass(line []byte) {
	now := t.now()
	e, err := parseEvent(line, now)
	if err != nil {
		t.logger.Debug("not an event", "line", oneLine(string(line), maxMessage), "error", err)
		return
	}
	t.last = e.Message
	skipped, ok := t.flow.take(now)
	if !ok {
		return
	}
	event := t.event()
	event.Timestamp, event.Message, event.Annotations = e.Time, e.Message, e.Annotations
	if skipped > 0 {
		event.Message += fmt.Sprintf(" (%d events before this one were left out)", skipped)
	}
	if err := t.emit(event); err != nil {
		t.logger.Debug("event not passed on", "message", event.Message, "error", err)
	}
}

// restore reads how far an earlier plugin has come.
func (t *tail) restore() {
	data, err := os.ReadFile(t.notePath)
	if err != nil {
		return // nothing was passed on yet
	}
	offset, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || offset < 0 {
		t.logger.Warn("cannot tell which events were passed on; passing on all", "offset", string(data))
		return
	}
	t.offset = offset
}

func (t *tail) save() error {
	next := t.notePath + ".new"
	if err := os.WriteFile(next, []byte(strconv.FormatInt(t.offset, 10)), 0o600); err != nil {
		return err
	}
	return os.Rename(next, t.notePath)
}
