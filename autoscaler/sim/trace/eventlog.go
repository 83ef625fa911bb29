// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// logJob gathers the entries of one job.
type logJob struct {
	job    Job
	line   int
	points map[int]float64 // mean step time by size
	weight map[int]float64 // samples behind the mean
	steps  float64         // seen so far
	ended  bool
}

// readEventLog reads Kolo's event log. A job's curve goes through its measured step times.
// Its length is total_steps if it has not ended and the log contains them, otherwise the
// number of steps that it made. A job without a step time or without steps cannot be
// replayed: it is an error, or skipped.
func readEventLog(t *Trace, r *bufio.Reader, file string, o Options) error {
	l := &logReader{trace: t, jobs: map[string]*logJob{}, nodes: map[string]bool{}, gaps: map[int][]float64{}}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<16), 1<<22)
	line := 0
	for sc.Scan() {
		line++
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		err := l.entry(sc.Bytes(), line)
		if err == nil {
			continue
		}
		var placed *Error
		if errors.As(err, &placed) {
			placed.File, placed.Line = file, line
		} else {
			err = &Error{File: file, Line: line, Err: err}
		}
		if !o.Skip {
			return err
		}
		t.Skipped = append(t.Skipped, err)
	}
	if err := sc.Err(); err != nil {
		return &Error{File: file, Line: line + 1, Err: err}
	}
	for _, id := range l.order {
		if o.MaxJobs > 0 && len(t.Jobs) == o.MaxJobs {
			break
		}
		if err := l.finish(id); err != nil {
			err = &Error{File: file, Line: l.jobs[id].line, Err: fmt.Errorf("job %s: %w", id, err)}
			if !o.Skip {
				return err
			}
			t.Skipped = append(t.Skipped, err)
		}
	}
	for n, v := range l.gaps {
		if t.Gaps == nil {
			t.Gaps = map[int]float64{}
		}
		slices.Sort(v)
		t.Gaps[n] = v[len(v)/2]
	}
	t.shift()
	return nil
}

type logReader struct {
	trace *Trace
	jobs  map[string]*logJob
	order []string
	nodes map[string]bool
	gaps  map[int][]float64
}

// entry handles one line.
func (l *logReader) entry(raw []byte, line int) error {
	var e Event
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return columnOf(err)
	}
	if !finite(e.Time) {
		return &Error{Field: "time", Err: fmt.Errorf("want seconds, got %v", e.Time)}
	}
	if e.Kind == EventNode {
		return l.node(&e)
	}
	if e.Job == "" {
		return &Error{Field: "job", Err: fmt.Errorf("an entry of kind %q must name a job", e.Kind)}
	}
	j := l.jobs[e.Job]
	if e.Kind == EventJob {
		if j == nil {
			j = &logJob{line: line, points: map[int]float64{}, weight: map[int]float64{}}
			j.job.Submit = e.Time
		}
		if err := j.describe(&e); err != nil {
			return err
		}
		if l.jobs[e.Job] == nil {
			l.jobs[e.Job] = j
			l.order = append(l.order, e.Job)
		}
		return nil
	}
	if j == nil {
		return &Error{Field: "job", Err: fmt.Errorf("there is no entry of kind job for %q before", e.Job)}
	}
	switch e.Kind {
	case EventCount:
		if e.Count == nil || *e.Count < 0 {
			return &Error{Field: "count", Err: errors.New("want a count from 0")}
		}
	case EventStepTime:
		return j.measure(&e)
	case EventResize:
		if e.To < 1 || !(e.Seconds >= 0) {
			return &Error{Field: "to", Err: errors.New("want a size from 1 and a gap from 0 s")}
		}
		l.gaps[e.To] = append(l.gaps[e.To], e.Seconds)
	case EventProgress, EventEnd:
		if e.Steps != nil {
			if !finite(*e.Steps) || *e.Steps < 0 {
				return &Error{Field: "steps", Err: fmt.Errorf("want a number from 0, got %v", *e.Steps)}
			}
			j.steps = max(j.steps, *e.Steps)
		}
		j.ended = j.ended || e.Kind == EventEnd
	default:
		return &Error{Field: "event", Err: fmt.Errorf("unknown kind %q", e.Kind)}
	}
	return nil
}

func (l *logReader) node(e *Event) error {
	kind, err := ParseNodeEventKind(e.State)
	if err != nil {
		return &Error{Field: "state", Err: err}
	}
	if e.Node == "" {
		return &Error{Field: "node", Err: errors.New("an entry of kind node must name one")}
	}
	if !l.nodes[e.Node] {
		if e.GPUs < 1 {
			return &Error{Field: "gpus", Err: fmt.Errorf("want at least 1 on the first entry of a node, got %d", e.GPUs)}
		}
		l.nodes[e.Node] = true
		l.trace.Nodes = append(l.trace.Nodes, Node{ID: e.Node, Type: e.Type, GPUs: e.GPUs})
		if kind == NodeUp {
			return nil
		}
	}
	l.trace.Events = append(l.trace.Events, NodeEvent{Time: e.Time, Node: e.Node, Kind: kind})
	return nil
}

// describe handles an entry of kind job. A later entry replaces all except the arrival.
func (j *logJob) describe(e *Event) error {
	b := &j.job
	if max(1, e.Min) > max(1, e.Max) {
		return &Error{Field: "max", Err: fmt.Errorf("%d is below min %d", e.Max, e.Min)}
	}
	if max(e.Max, e.Preferred, e.PerWorker) > maxSize {
		return &Error{Field: "max", Err: fmt.Errorf("want sizes of at most %d", maxSize)}
	}
	b.ID, b.App, b.Tenant, b.Type = e.Job, e.App, e.Tenant, e.Type
	b.Weight, b.Priority = e.Weight, e.Priority
	b.Min, b.Max = max(1, e.Min), max(1, e.Max)
	if b.Preferred = e.Preferred; b.Preferred == 0 {
		b.Preferred = b.Min
	}
	b.Sizes, b.PerWorker = e.Sizes, max(1, e.PerWorker)
	b.Deadline = e.Deadline
	b.Preemptible = e.Preemptible == nil || *e.Preemptible
	b.Steps = e.TotalSteps
	return nil
}

// measure adds a step time to the mean of its size.
func (j *logJob) measure(e *Event) error {
	if e.Workers < 1 || e.Workers > maxSize {
		return &Error{Field: "workers", Err: fmt.Errorf("want 1 to %d, got %d", maxSize, e.Workers)}
	}
	if !finite(e.Seconds) || e.Seconds <= 0 {
		return &Error{Field: "seconds", Err: fmt.Errorf("want more than 0, got %v", e.Seconds)}
	}
	w := float64(max(1, e.Samples))
	old := j.weight[e.Workers]
	j.points[e.Workers] = (j.points[e.Workers]*old + e.Seconds*w) / (old + w)
	j.weight[e.Workers] = old + w
	return nil
}

// finish turns the entries of a job into a job of the trace.
func (l *logReader) finish(id string) error {
	j := l.jobs[id]
	b := j.job
	if len(j.points) == 0 {
		return errors.New("its training did not report progress (KOLO_PROGRESS_FILE), so it cannot be replayed")
	}
	if j.ended && j.steps > 0 || b.Steps == 0 {
		b.Steps = j.steps
	}
	if b.Steps == 0 {
		return errors.New("neither total_steps nor the steps it did were logged, so it cannot be replayed")
	}
	largest := slices.Max(slices.Collect(maps.Keys(j.points)))
	var err error
	if b.Curve, err = Interpolate(j.points, max(b.Max, largest)); err != nil {
		return err
	}
	return l.trace.add(b)
}

// columnOf finds the column in an error of encoding/json.
func columnOf(err error) error {
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &Error{Column: int(syntax.Offset), Err: err}
	case errors.As(err, &mistyped):
		return &Error{Column: int(mistyped.Offset), Field: mistyped.Field, Err: err}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Err: errors.New("the line ends within a JSON object")}
	}
	return &Error{Err: err}
}
