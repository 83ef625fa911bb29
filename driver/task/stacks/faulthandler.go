// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stacks

import (
	"strconv"
	"strings"
)

// ParseFaulthandler returns the threads in a text that Python's faulthandler has written.
// The main thread is the one that handled the signal ("Current thread"). The kernel
// delivers a signal of a process to its main thread if it can.
//
//	Thread 0x00007febb50ea6c0 [name] (most recent call first):
//	  File "/app/train.py", line 5 in work
//	  ...
//
//	Current thread 0x00007febb5e47b80 (most recent call first):
//	  <no Python frame>
//
// It ignores lines of any other form. The caller bounds the length of the text.
func ParseFaulthandler(text string) []Thread {
	p := Process{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if name, main, ok := parseThread(line); ok {
			p.Threads = append(p.Threads, Thread{Name: name, Main: main})
			continue
		}
		if len(p.Threads) == 0 {
			continue
		}
		t := &p.Threads[len(p.Threads)-1]
		switch f, ok := parseFrame(line); {
		case ok:
			t.Frames = append(t.Frames, f)
		case line == "  ...":
			t.Cut = true
		}
	}
	p.keepMain()
	p.bound()
	return p.Threads
}

// keepMain moves the main thread to the front, so that no limit removes it, and leaves no
// second one.
func (p *Process) keepMain() {
	found := false
	for i := range p.Threads {
		if !p.Threads[i].Main {
			continue
		}
		if p.Threads[i].Main = !found; !found {
			p.Threads[0], p.Threads[i] = p.Threads[i], p.Threads[0]
			found = true
		}
	}
}

// parseThread parses the first line of a thread.
func parseThread(line string) (name string, main, ok bool) {
	line, ok = strings.CutSuffix(line, " (most recent call first):")
	if !ok {
		return "", false, false
	}
	if line == "Stack" { // of the only thread, if Python cannot show all
		return "", true, true
	}
	id, main := strings.CutPrefix(line, "Current thread ")
	if !main {
		if id, ok = strings.CutPrefix(line, "Thread "); !ok {
			return "", false, false
		}
	}
	if _, named, ok := strings.Cut(id, " ["); ok { // since Python 3.14
		name = strings.TrimSuffix(named, "]")
	}
	return name, main, true
}

// parseFrame parses the line of a frame. Python prints ??? for unknown parts.
func parseFrame(line string) (Frame, bool) {
	line, ok := strings.CutPrefix(line, "  File ")
	if !ok {
		return Frame{}, false
	}
	at := strings.LastIndex(line, ", line ")
	if at < 0 {
		return Frame{}, false
	}
	number, function, ok := strings.Cut(line[at+len(", line "):], " in ")
	if !ok {
		return Frame{}, false
	}
	f := Frame{Function: function, File: strings.Trim(line[:at], `"`)}
	f.Line, _ = strconv.Atoi(number) // 0 is unknown
	return f, true
}
