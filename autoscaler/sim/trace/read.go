// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Format names a trace format.
type Format string

// The formats that Read knows. docs/reference/simulator.md describes their columns.
const (
	Auto        Format = "auto"        // by the header
	Pollux      Format = "pollux"      // jobs.csv with step_times.csv next to it
	Voda        Format = "voda"        // jobs with speed-ups on 2 to n GPUs
	Philly      Format = "philly"      // cluster_job_log (JSON) or one CSV line per job
	Helios      Format = "helios"      // cluster_log.csv
	ElasticFlow Format = "elasticflow" // raw, simulation and Tiresias-style CSV
	Acme        Format = "acme"        // trace_kalos.csv, trace_seren.csv
	Alibaba     Format = "alibaba"     // openb_pod_list_*.csv of 2023
	EventLog    Format = "kolo"        // Kolo's event log, JSON lines
)

var readers = map[Format]func(*Trace, *bufio.Reader, string, Options) error{
	Pollux: readPollux, Voda: readVoda, Philly: readPhilly, Helios: readHelios, ElasticFlow: readElasticFlow,
	Acme: readAcme, Alibaba: readAlibaba, EventLog: readEventLog,
}

// Formats returns all formats, Auto first.
func Formats() []Format {
	return []Format{Auto, Pollux, Voda, Philly, Helios, ElasticFlow, Acme, Alibaba, EventLog}
}

// Options specify how a trace is read. The zero value reads strictly and detects the
// format.
type Options struct {
	Format Format

	// Skip leaves out entries with errors and reports them in Trace.Skipped, instead of
	// failing at the first.
	Skip bool

	// Workload picks one of the workloads of a Pollux file; 0 is all of them in one.
	Workload int

	// Curves is a file or directory of step times. For Pollux it is step_times.csv ("": the
	// one next to the trace), for ElasticFlow a directory with one throughput file per
	// model.
	Curves string

	// Alpha is the exponent of the speed-up n^Alpha of jobs whose trace does not record how
	// they scale. 0 is 0.9.
	Alpha float64

	// Grow is how many times its size in the trace such a job may grow to. 0 is 4.
	Grow int

	// Phases, if not nil, makes the jobs of its applications adapt their batch size
	// (Phases.Apply). In a Pollux trace, they need no step times then.
	Phases *Phases

	// MaxJobs is the largest number of jobs to read; 0 means no limit.
	MaxJobs int
}

func (o Options) alpha() float64 {
	if o.Alpha == 0 {
		return 0.9
	}
	return o.Alpha
}

func (o Options) grow() int {
	if o.Grow == 0 {
		return 4
	}
	return o.Grow
}

// Error is an error in a trace with its place. Line and Column count from 1. Column is the
// byte column at which the field starts, 0 if only the line is known.
type Error struct {
	File         string
	Line, Column int
	Field        string // name of the column or key
	Err          error
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d", e.File, e.Line)
	if e.Column > 0 {
		fmt.Fprintf(&b, ":%d", e.Column)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, ": %s", e.Field)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Open reads the trace in a file.
func Open(path string, o Options) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	if o.Curves == "" {
		beside := filepath.Join(filepath.Dir(path), "step_times.csv")
		if _, err := os.Stat(beside); err == nil {
			o.Curves = beside
		}
	}
	return Read(f, path, o)
}

// Read reads a trace. The name appears in errors and reports. Jobs come back in order of
// arrival.
func Read(r io.Reader, name string, o Options) (*Trace, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	format := o.Format
	if format == "" || format == Auto {
		var err error
		if format, err = detect(br, name); err != nil {
			return nil, err
		}
	}
	read, ok := readers[format]
	if !ok {
		return nil, fmt.Errorf("unknown trace format %q, want one of %v", format, Formats())
	}
	t := &Trace{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))}
	if err := read(t, br, name, o); err != nil {
		return nil, err
	}
	if len(t.Jobs) == 0 {
		return nil, fmt.Errorf("%s: no jobs in this trace (%d entries skipped)", name, len(t.Skipped))
	}
	if err := unique(t.Jobs); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.order()
	if o.Phases != nil {
		if err := o.Phases.Apply(t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// detect returns the format by the first line, without consuming it.
func detect(br *bufio.Reader, name string) (Format, error) {
	head, err := br.Peek(2048)
	if len(head) == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	switch {
	case bytes.HasPrefix(head, []byte("[")):
		return Philly, nil
	case bytes.HasPrefix(head, []byte("{")):
		return EventLog, nil
	}
	cols := strings.Split(strings.TrimSpace(string(line)), ",")
	for i := range cols {
		cols[i] = strings.ToLower(strings.TrimSpace(cols[i]))
	}
	has := func(names ...string) bool {
		for _, n := range names {
			if !slices.Contains(cols, n) {
				return false
			}
		}
		return true
	}
	switch {
	case has("submit_s", "application"):
		return Pollux, nil
	case has("t1_est_s"):
		return Voda, nil
	case has("gpu_num", "gpu_time"):
		return Acme, nil
	case has("num_gpu", "scheduled_time"):
		return Alibaba, nil
	case has("gpu_num", "duration"):
		return Helios, nil
	case has("jobid", "submitted_time"):
		return Philly, nil
	case has("job_id", "num_gpu"):
		return ElasticFlow, nil
	}
	return "", &Error{File: name, Line: 1, Column: 1, Err: fmt.Errorf(
		"no known format has the columns %q; name one with -format", strings.Join(cols, ","))}
}

// add appends the job if it is valid.
func (t *Trace) add(j Job) error {
	if j.Weight == 0 {
		j.Weight = 1
	}
	if j.PerWorker == 0 {
		j.PerWorker = 1
	}
	if err := j.Validate(); err != nil {
		return err
	}
	t.Jobs = append(t.Jobs, j)
	return nil
}

func unique(jobs []Job) error {
	seen := make(map[string]bool, len(jobs))
	for i := range jobs {
		if seen[jobs[i].ID] {
			return fmt.Errorf("two jobs are named %q", jobs[i].ID)
		}
		seen[jobs[i].ID] = true
	}
	return nil
}
