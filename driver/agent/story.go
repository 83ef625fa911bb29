// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// stories writes what happens for the user: to the log, and as JSON lines to
// the file that the plugin turns into task events.
type stories struct {
	mu   sync.Mutex
	file io.WriteCloser
	log  hclog.Logger
}

type storyLine struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

func newStories(path string, log hclog.Logger) (*stories, error) {
	s := &stories{log: log}
	if path == "" {
		return s, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	s.file = f
	return s, nil
}

func (s *stories) tell(message string) {
	s.log.Info(message)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return
	}
	b, err := json.Marshal(storyLine{time.Now().UTC(), message})
	if err == nil {
		_, _ = s.file.Write(append(b, '\n'))
	}
}

func (s *stories) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
