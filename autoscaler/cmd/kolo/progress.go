// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
)

// progress shows the progress of a long command: a bar if standard error is a
// terminal, else an occasional line, so that logs stay readable. Nothing goes to standard
// output, which may be a report.
type progress struct {
	file  *os.File
	tty   bool
	start time.Time
	last  time.Time
	drawn bool
}

func newProgress(f *os.File) *progress {
	now := time.Now()
	return &progress{file: f, tty: isatty.IsTerminal(f.Fd()), start: now, last: now}
}

// step reports that done of total units are complete.
func (p *progress) step(done, total int) {
	now := time.Now()
	least := 100 * time.Millisecond
	if !p.tty {
		least = 10 * time.Second
	}
	if now.Sub(p.last) < least {
		return
	}
	p.last = now
	left := time.Duration(float64(now.Sub(p.start)) / float64(done) * float64(total-done)).Round(time.Second)
	if !p.tty {
		p.draw("%d of %d runs done, %s left\n", done, total, left)
		return
	}
	const width = 30
	full := done * width / total
	p.draw("\r[%s%s] %d/%d runs, %s left ", strings.Repeat("#", full), strings.Repeat(".", width-full), done, total, left)
	p.drawn = true
}

// end removes the bar.
func (p *progress) end() {
	if p.drawn {
		p.draw("\r%s\r", strings.Repeat(" ", 70))
	}
}

// draw writes to standard error. It ignores errors, because a closed terminal is no
// reason to stop.
func (p *progress) draw(format string, args ...any) {
	_, _ = fmt.Fprintf(p.file, format, args...)
}
