// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fuzzRun is the result of a run of a target.
type fuzzRun struct {
	inputs int
	note   string
	output string
}

// progress parses the output of go test -fuzz while it is written.
type progress struct {
	mu     sync.Mutex
	output bytes.Buffer
	inputs int       // number finished so far
	since  time.Time // when inputs last changed; zero before the first report
	hung   bool
}

func newProgress() *progress { return &progress{} }

var execs = regexp.MustCompile(`(?m)^fuzz: elapsed: \S+, execs: (\d+)`)

// Write receives a piece of the output.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output.Write(b)
	all := execs.FindAllSubmatch(p.output.Bytes(), -1)
	if len(all) == 0 {
		return len(b), nil
	}
	if n, err := strconv.Atoi(string(all[len(all)-1][1])); err == nil && (n != p.inputs || p.since.IsZero()) {
		p.inputs, p.since = n, time.Now()
	}
	return len(b), nil
}

// watch calls abort, once, if no input has finished for limit. It returns when done
// is closed.
func (p *progress) watch(done <-chan struct{}, limit time.Duration, abort func()) {
	tick := time.NewTicker(min(time.Second, limit))
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if p.stalled(limit) {
			abort()
		}
	}
}

// stalled reports whether nothing has finished for limit. It returns true only
// once.
func (p *progress) stalled(limit time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hung || p.since.IsZero() || time.Since(p.since) < limit {
		return false
	}
	p.hung = true
	return true
}

// deadlineOnly matches the output of a run that failed due to a bug of Go's, which
// 1.27 fixes: occasionally the end of -fuzztime counts as a failure
// (go.dev/issue/75804). In that case no input is named.
var deadlineOnly = regexp.MustCompile(`(?m)^--- FAIL: .*\n\s+context deadline exceeded\nFAIL$`)

// result judges a run by the exit of go test and its output. A run that ends after
// nothing has finished for half of limit also counts as hung: it ended before it
// could be aborted.
func (p *progress) result(err error, limit time.Duration) (fuzzRun, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := fuzzRun{inputs: p.inputs, output: p.output.String()}
	switch {
	case p.hung:
		return run, errors.New("an input hangs")
	case err != nil && p.inputs > 0 && deadlineOnly.MatchString(run.output) && !strings.Contains(run.output, "Failing input"):
		run.note = " (go.dev/issue/75804 at the end)"
		return run, nil
	case err != nil:
		return run, fmt.Errorf("go test: %w", err)
	case p.inputs == 0:
		return run, errNothing
	case time.Since(p.since) > limit/2:
		return run, errors.New("an input hangs at the end: run it for longer")
	}
	return run, nil
}

// readHead returns the beginning of a file.
func readHead(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	return string(b), err
}
