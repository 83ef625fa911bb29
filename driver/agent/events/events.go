// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package events

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Log reports events to the user: in the agent's log, and as JSON lines in the file that
// the plugin turns into task events.
type Log struct {
	mu     sync.Mutex
	file   io.WriteCloser
	log    hclog.Logger
	recent []Line
}

// recentLimit is how many events a Log keeps.
const recentLimit = 20

// Line is one event.
type Line struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

// Open returns a Log that appends to the file at path; if path is empty, it writes no
// file.
func Open(path string, log hclog.Logger) (*Log, error) {
	l := &Log{log: log}
	if path == "" {
		return l, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	l.file = f
	return l, nil
}

// Emit reports one event.
func (l *Log) Emit(message string) {
	l.log.Info(message)
	l.keep(message)
}

// Warn reports an event that the user should act on.
func (l *Log) Warn(message string) {
	l.log.Warn(message)
	l.keep(message)
}

func (l *Log) keep(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	event := Line{time.Now().UTC(), message}
	if len(l.recent) == recentLimit {
		l.recent = l.recent[1:]
	}
	l.recent = append(l.recent, event)
	if l.file == nil {
		return
	}
	b, err := json.Marshal(event)
	if err == nil {
		_, _ = l.file.Write(append(b, '\n'))
	}
}

// Recent returns the latest events, the newest last.
func (l *Log) Recent() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recent)
}

// Close closes the file.
func (l *Log) Close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}
