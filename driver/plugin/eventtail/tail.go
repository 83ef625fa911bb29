// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package eventtail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

const (
	// interval is the longest delay before an event is passed on. One look costs
	// one stat.
	interval = 250 * time.Millisecond
	// maxPoll bounds what one look reads. An agent's event file never grows faster.
	maxPoll = 256 << 10
	// burst bounds the events that are passed on at once, and one more may follow
	// every refill. Nomad sends each to its servers and keeps ten.
	burst  = 20
	refill = 2 * time.Second
)

// Options configure a Tail. All are required.
type Options struct {
	// Dir is the task's directory, Path the event file in it.
	Dir, Path string
	// Note is the file that records how much was passed on.
	Note string
	// Emit passes an event on.
	Emit   func(Event) error
	Logger hclog.Logger
}

// Tail passes on the lines that an agent appends to its event file. It records its
// position in a file of root's, so that a restarted plugin neither repeats nor
// misses an event. If the plugin dies before it has recorded its position, the next
// plugin repeats the last few events.
//
// The event file belongs to the task's user, who may replace it by anything. So
// Tail opens it without leaving the task directory and without blocking, reads at
// most maxPoll bytes per poll, and treats its content as mere text.
type Tail struct {
	o      Options
	now    func() time.Time
	logger hclog.Logger

	offset int64
	last   string
	// limit bounds how many events are passed on. skipped counts those that were
	// dropped since the last one passed on.
	limit   *rate.Limiter
	skipped int
	// warnOnce prevents a task from filling the client's log.
	warnOnce sync.Once
}

// New returns the tail of an event file, which need not exist yet.
func New(o Options) *Tail {
	return &Tail{o: o, now: time.Now, logger: o.Logger, limit: rate.NewLimiter(rate.Every(refill), burst)}
}

// Run passes events on until ctx ends.
func (t *Tail) Run(ctx context.Context) {
	t.restore()
	ticker := time.NewTicker(interval)
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

// Drain passes on the remaining events after the agent has ended, and returns the
// message of the last one. It must not overlap Run.
func (t *Tail) Drain(ctx context.Context) string {
	t.poll(ctx)
	return t.last
}

// poll passes on every complete line since the last call.
func (t *Tail) poll(ctx context.Context) {
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

func (t *Tail) read(ctx context.Context) error {
	f, size, err := t.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if size < t.offset {
		t.offset = 0 // the file was truncated or replaced
	}
	if size-t.offset > maxPoll {
		t.warnOnce.Do(func() {
			t.logger.Warn("the event file grows faster than an agent's; parts of it are passed over", "bytes", size-t.offset-maxPoll)
		})
		t.offset = size - maxPoll
	}
	buf := make([]byte, maxLine)
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
			t.offset += int64(n) // no event is that long: skip it
		default:
			return nil // the rest of the last line is not written yet
		}
	}
	return nil
}

// open opens the event file and returns its length. It accepts only a regular file
// at exactly that path: a pipe or a link may lead to data of others.
func (t *Tail) open() (*os.File, int64, error) {
	root, err := os.OpenRoot(t.o.Dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }()
	there, err := root.Lstat(t.o.Path)
	if err != nil {
		return nil, 0, err
	}
	if !there.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file", t.o.Path)
	}
	// It may have been replaced since, so the open must not block on a pipe.
	f, err := root.OpenFile(t.o.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(there, opened) {
		err = fmt.Errorf("%s was replaced", t.o.Path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, opened.Size(), nil
}

// pass passes one line on, unless there were too many recently.
func (t *Tail) pass(line []byte) {
	now := t.now()
	e, err := parseEvent(line, now)
	if err != nil {
		t.logger.Debug("not an event", "line", plaintext.Line(string(line), plaintext.Limit), "error", err)
		return
	}
	t.last = e.Message
	if !t.limit.AllowN(now, 1) {
		t.skipped++
		return
	}
	if t.skipped > 0 {
		e.Message += fmt.Sprintf(" (%d events before this one were left out)", t.skipped)
		t.skipped = 0
	}
	if err := t.o.Emit(e); err != nil {
		t.logger.Debug("event not passed on", "message", e.Message, "error", err)
	}
}

// restore reads the position of an earlier plugin.
func (t *Tail) restore() {
	data, err := os.ReadFile(t.o.Note)
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

func (t *Tail) save() error {
	next := t.o.Note + ".new"
	if err := os.WriteFile(next, []byte(strconv.FormatInt(t.offset, 10)), 0o600); err != nil {
		return err
	}
	return os.Rename(next, t.o.Note)
}
