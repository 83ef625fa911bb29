// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A screen prints events, one line each with the time since the start, and on a
// terminal keeps a table below.
type screen struct {
	out   *os.File
	began time.Time
	table []string // as currently shown on the terminal
}

func newScreen(out *os.File) *screen { return &screen{out: out, began: time.Now()} }

// say prints a line above the table.
func (s *screen) say(format string, args ...any) {
	table := s.table
	s.clear()
	s.write("%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
	s.draw(table)
}

// show replaces the table.
func (s *screen) show(table string) {
	s.clear()
	s.draw(append([]string{""}, strings.Split(table, "\n")...))
}

// clear removes the table.
func (s *screen) clear() {
	if len(s.table) > 0 {
		s.write("\x1b[%dA\x1b[J", len(s.table))
	}
	s.table = nil
}

// draw draws a table on the terminal, if it is one. It cuts lines at the edge,
// because a line that wraps would take two lines to clear.
func (s *screen) draw(table []string) {
	width, ok := s.width()
	if !ok {
		return
	}
	for _, line := range table {
		text := []rune(line)
		s.write("%s\n", string(text[:min(len(text), width)]))
	}
	s.table = table
}

func (s *screen) write(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format, args...) // no one may be looking
}

// width returns the width of the terminal, if there is one.
func (s *screen) width() (int, bool) {
	size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	if size.Col == 0 {
		return 80, true // the terminal does not report its width
	}
	return int(size.Col), true
}
