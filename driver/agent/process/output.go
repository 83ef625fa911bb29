// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// maxTail is how many of a process's last stderr lines are kept to explain its
// end.
const maxTail = 8

// copyLines copies one stream line by line. It splits lines that are too long.
func copyLines(r io.Reader, prefix string, merged, log io.Writer, each func(string)) {
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadSlice('\n')
		if len(line) > 0 {
			out := make([]byte, 0, len(prefix)+len(line)+1)
			out = append(append(out, prefix...), line...)
			if line[len(line)-1] != '\n' {
				out = append(out, '\n')
			}
			if merged != nil {
				_, _ = merged.Write(out)
			}
			if log != nil {
				_, _ = log.Write(line)
			}
			if each != nil {
				each(plaintext.Line(string(line), plaintext.Limit))
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (p *Process) keep(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, line)
	if len(p.tail) > maxTail {
		p.tail = p.tail[1:]
	}
}

// LastError returns the last line of stderr that explains what went wrong.
func (p *Process) LastError() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.tail) - 1; i >= 0; i-- {
		if l := strings.TrimSpace(p.tail[i]); strings.Contains(l, "Error") || strings.Contains(l, "what():") {
			return l
		}
	}
	if n := len(p.tail); n > 0 {
		return strings.TrimSpace(p.tail[n-1])
	}
	return ""
}

// SharedWriter is a writer for several processes that does not mix their lines.
type SharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// NewSharedWriter returns a SharedWriter to w.
func NewSharedWriter(w io.Writer) *SharedWriter { return &SharedWriter{w: w} }

// Write writes whole lines at once, so that no other write comes in between.
func (s *SharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

// IgnoreSIGPIPE keeps this process alive when no one reads its output: training must not
// end with a log collector or a pager. Output is lost until there is a reader again.
//
// It calls signal.Notify instead of signal.Ignore, because training processes would
// inherit an ignored signal.
func IgnoreSIGPIPE() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
