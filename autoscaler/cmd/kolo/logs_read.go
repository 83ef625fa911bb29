// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// logOptions are the options of kolo logs.
type logOptions struct {
	follow     bool
	tail, rank int
	task, kind string
}

const (
	tailBytes = 64 << 10 // of a log, in which the last lines are looked for
	logLine   = 4 << 10  // bytes of a line; a longer one is cut into several

	// tailQuiet is how long a followed log must be silent to have sent its last lines.
	tailQuiet = 300 * time.Millisecond
)

// logReader reads the logs of a job's allocations.
type logReader struct {
	nomad     *cluster.Client
	namespace string
	printer   *logPrinter
	logOptions
}

// read prints the log of one allocation, beginning with the last tail lines. It reports
// whether it has printed these.
func (r *logReader) read(ctx context.Context, id string, tail int) (live bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := func() *nomad.QueryOptions { return (&nomad.QueryOptions{Namespace: r.namespace}).WithContext(ctx) }
	alloc, _, err := r.nomad.Allocations().Info(id, query())
	if err != nil {
		return false, err
	}
	task, err := taskOf(alloc, r.task)
	if err != nil {
		return false, err
	}
	frames, failed := r.nomad.AllocFS().Logs(alloc, r.follow, task, r.kind, nomad.OriginEnd, tailBytes, ctx.Done(), query())
	l := logLines{most: tail, emit: func(text string) { r.printer.line(id, text) }}
	quiet := time.NewTimer(tailQuiet)
	defer quiet.Stop()
	for {
		select {
		case f, open := <-frames:
			if !open {
				l.end()
				return true, nil
			}
			l.add(f.Data)
			quiet.Reset(tailQuiet)
		case err := <-failed:
			return l.isLive, err
		case <-quiet.C:
			if r.follow {
				l.live()
			}
		}
	}
}

// taskOf returns the task of an allocation whose log is meant.
func taskOf(a *nomad.Allocation, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	var names []string
	if a.Job != nil {
		for _, g := range a.Job.TaskGroups {
			if g.Name == nil || *g.Name != a.TaskGroup {
				continue
			}
			for _, t := range g.Tasks {
				if slices.Contains([]string{"torch", "horovod"}, t.Driver) {
					return t.Name, nil
				}
				if t.Lifecycle == nil {
					names = append(names, t.Name)
				}
			}
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("name one of its tasks (%s) with -task", strings.Join(names, ", "))
}

// logLines splits a log into lines. It holds back the first ones until it is live, and then
// prints the last of them.
type logLines struct {
	most int
	emit func(string)

	rest   []byte
	prefix string // of the next part of a line that was cut
	held   []string
	isLive bool
}

func (l *logLines) add(text []byte) {
	l.rest = append(l.rest, text...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		end := i + 1
		if i < 0 || i > logLine {
			if len(l.rest) <= logLine {
				return
			}
			i = logLine - len(l.prefix)
			end = i
		}
		text := l.prefix + string(l.rest[:i])
		l.line(text)
		l.rest, l.prefix = l.rest[end:], ""
		if end == i { // the next part has the same slot, whatever its text is
			l.prefix = cmp.Or(ofSlot.FindString(text), " ")
		}
	}
}

func (l *logLines) line(text string) {
	if l.isLive {
		l.emit(text)
		return
	}
	l.held = append(l.held, text)
	l.held = l.held[max(0, len(l.held)-l.most):]
}

// live prints the lines that were held back. From then on, lines are printed at once.
func (l *logLines) live() {
	l.isLive = true
	for _, text := range l.held {
		l.emit(text)
	}
	l.held = nil
}

// end prints what is left, after the log has ended.
func (l *logLines) end() {
	if len(l.rest) > 0 {
		l.line(l.prefix + string(l.rest))
	}
	l.live()
}

// logPrinter prints lines with the ranks that wrote them.
type logPrinter struct {
	out  io.Writer
	json bool
	rank int

	mu    sync.Mutex
	known map[string]api.JobAllocation
}

// update sets the allocations and their ranks, which change when the job is resized.
func (p *logPrinter) update(list []api.JobAllocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[string]api.JobAllocation{}
	}
	for i := range list {
		p.known[list[i].ID] = list[i]
	}
}

// ofSlot matches the number of the slot that a task driver writes before each line.
var ofSlot = regexp.MustCompile(`^\[([0-9]{1,4})\] `)

// logRecord is a line with -json.
type logRecord struct {
	Alloc string `json:"alloc"`
	Node  string `json:"node,omitempty"`
	Rank  *int   `json:"rank,omitempty"` // absent if it is not known
	Text  string `json:"text"`
}

func (p *logPrinter) line(alloc, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.known[alloc]
	r := logRecord{Alloc: alloc, Node: a.Node, Text: printable.Cell(text)}
	if m := ofSlot.FindStringSubmatch(text); m != nil {
		slot, err := strconv.Atoi(m[1])
		if err == nil && slot < len(a.Ranks) {
			rank := slices.Sorted(slices.Values(a.Ranks))[slot]
			r.Rank, r.Text = &rank, printable.Cell(text[len(m[0]):])
		}
	}
	switch {
	case p.rank != anyRank && (r.Rank == nil || *r.Rank != p.rank):
	case p.json:
		_ = json.NewEncoder(p.out).Encode(r) // standard output is closed
	case r.Rank != nil:
		_, _ = fmt.Fprintf(p.out, "rank %-3d %s\n", *r.Rank, r.Text) // as above
	default:
		_, _ = fmt.Fprintf(p.out, "%.8s %s\n", printable.Cell(alloc), r.Text) // as above
	}
}
