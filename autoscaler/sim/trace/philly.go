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
)

// phillyJob is an entry of cluster_job_log in the Philly traces (Jeon et al.,
// ATC'19).
type phillyJob struct {
	Status    string `json:"status"`
	VC        string `json:"vc"`
	JobID     string `json:"jobid"`
	Submitted string `json:"submitted_time"`
	User      string `json:"user"`
	Attempts  []struct {
		Start  string `json:"start_time"`
		End    string `json:"end_time"`
		Detail []struct {
			GPUs []string `json:"gpus"`
		} `json:"detail"`
	} `json:"attempts"`
}

// readPhilly reads cluster_job_log as published, or as one CSV line per job.
func readPhilly(t *Trace, br *bufio.Reader, file string, o Options) error {
	head, _ := br.Peek(64)
	if !bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("[")) {
		return readPhillyCSV(t, br, file, o)
	}
	text, err := io.ReadAll(br)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return placeJSON(file, text, dec.InputOffset(), err)
	}
	curves := map[int]*Curve{}
	for dec.More() && (o.MaxJobs == 0 || len(t.Jobs) < o.MaxJobs) {
		start := dec.InputOffset()
		start += int64(len(text[start:]) - len(bytes.TrimLeft(text[start:], ", \t\r\n")))
		var p phillyJob
		err := dec.Decode(&p)
		if err == nil {
			err = p.add(t, o, curves)
		}
		if err == nil {
			continue
		}
		var syntax *json.SyntaxError
		err = placeJSON(file, text, start, err)
		if !o.Skip || errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) {
			return err // after a syntax error there is no next entry
		}
		t.Skipped = append(t.Skipped, err)
	}
	t.shift()
	return nil
}

// add appends the job. Its length is the sum of its attempts, its size that of the last
// one. Jobs that never ran, or that still ran when the trace ended, are left out silently.
func (p *phillyJob) add(t *Trace, o Options, curves map[int]*Curve) error {
	gpus, seconds := 0, 0.0
	for i, a := range p.Attempts {
		if a.Start == "" || a.End == "" || a.Start == "None" || a.End == "None" {
			continue
		}
		from, err := parseClock(a.Start)
		if err != nil {
			return fmt.Errorf("job %s, attempt %d, start_time: %w", p.JobID, i+1, err)
		}
		to, err := parseClock(a.End)
		if err != nil {
			return fmt.Errorf("job %s, attempt %d, end_time: %w", p.JobID, i+1, err)
		}
		if to < from {
			return fmt.Errorf("job %s, attempt %d ends %.0f s before it starts", p.JobID, i+1, from-to)
		}
		gpus = 0
		for _, d := range a.Detail {
			gpus += len(d.GPUs)
		}
		seconds += to - from
	}
	if gpus == 0 || seconds == 0 {
		return nil
	}
	submit, err := parseClock(p.Submitted)
	if err != nil {
		return fmt.Errorf("job %s, submitted_time: %w", p.JobID, err)
	}
	j := Job{ID: p.JobID, App: p.User, Tenant: p.VC, Submit: submit}
	if err := scaled(&j, gpus, seconds, o, curves); err != nil {
		return err
	}
	return t.add(j)
}

// placeJSON gives an error the line and column of the entry that starts at an offset, or of
// the byte with the syntax error.
func placeJSON(file string, text []byte, offset int64, err error) error {
	e := &Error{File: file, Err: err}
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		// A decoder's offsets leave out the text between entries; those of the whole text
		// do not.
		if errors.As(json.Unmarshal(text, new(json.RawMessage)), &syntax) {
			offset = max(0, syntax.Offset-1) // it counts the byte itself
		}
	case errors.As(err, &mistyped):
		e.Field = mistyped.Field
	}
	before := text[:min(offset, int64(len(text)))]
	e.Line = bytes.Count(before, []byte("\n")) + 1
	e.Column = len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return e
}

// readPhillyCSV reads the Philly traces flattened to one line of CSV per job: jobid,
// submitted_time, gpus, and either duration or start_time and end_time; optionally vc and
// user.
func readPhillyCSV(t *Trace, r io.Reader, file string, o Options) error {
	tab, err := newTable(r, file, "jobid", "submitted_time", "gpus")
	if err != nil {
		return err
	}
	if !tab.has("duration") {
		if err := tab.need("start_time", "end_time"); err != nil {
			return err
		}
	}
	jobs := fixed{id: "jobid", app: "user", tenant: "vc", gpus: "gpus", submit: "submitted_time", seconds: func() float64 {
		switch {
		case tab.has("duration"):
			return tab.float("duration", 0)
		case tab.text("start_time") == "" || tab.text("end_time") == "":
			return 0 // never ran, or still did
		}
		return tab.between("start_time", "end_time")
	}}
	return jobs.read(t, tab, o)
}
