// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// table reads a CSV file with a header and remembers the position of each field, so that an
// error is reported with its line and column.
type table struct {
	file string
	r    *csv.Reader
	cols map[string]int
	rec  []string
	err  error // first error in the present record
	line int
}

// newTable reads the header, which must have the needed columns. Names of columns are
// compared in lower case.
func newTable(r io.Reader, file string, needed ...string) (*table, error) {
	t := &table{file: file, r: csv.NewReader(r), cols: map[string]int{}}
	t.r.ReuseRecord = true
	t.r.TrimLeadingSpace = true
	head, err := t.r.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return nil, t.wrap(err)
	}
	for i, h := range head {
		h = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")))
		if _, twice := t.cols[h]; twice {
			line, col := t.r.FieldPos(i)
			return nil, &Error{File: file, Line: line, Column: col, Field: h, Err: errors.New("this column is listed twice")}
		}
		t.cols[h] = i
	}
	return t, t.need(needed...)
}

// need returns an error unless all columns exist.
func (t *table) need(names ...string) error {
	for _, n := range names {
		if _, ok := t.cols[n]; !ok {
			return &Error{File: t.file, Line: 1, Field: n, Err: errors.New("this column is missing")}
		}
	}
	return nil
}

// next reads a record. It returns io.EOF at the end.
func (t *table) next() error {
	t.err = nil
	rec, err := t.r.Read()
	t.rec = rec
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if len(rec) > 0 {
		t.line, _ = t.r.FieldPos(0)
	}
	if err != nil {
		return t.wrap(err)
	}
	return nil
}

// wrap turns an error of encoding/csv into an Error.
func (t *table) wrap(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return &Error{File: t.file, Line: p.Line, Column: p.Column, Err: p.Err}
	}
	return fmt.Errorf("%s: %w", t.file, err)
}

func (t *table) has(name string) bool { _, ok := t.cols[name]; return ok }

// text returns a field without surrounding space, "" if there is no such column.
func (t *table) text(name string) string {
	i, ok := t.cols[name]
	if !ok || i >= len(t.rec) {
		return ""
	}
	return strings.TrimSpace(t.rec[i])
}

// filled reports whether a field has a value: it is neither blank nor nan, which pandas and
// NumPy write for blank.
func (t *table) filled(name string) bool {
	s := t.text(name)
	return s != "" && !strings.EqualFold(s, "nan")
}

// fail notes an error in a field. The first one of a record counts.
func (t *table) fail(name string, err error) {
	if t.err != nil {
		return
	}
	e := &Error{File: t.file, Line: t.line, Field: name, Err: err}
	if i, ok := t.cols[name]; ok && i < len(t.rec) {
		e.Line, e.Column = t.r.FieldPos(i)
	}
	t.err = e
}

// float returns a finite number of at least least.
func (t *table) float(name string, least float64) float64 {
	s := t.text(name)
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !finite(v) || v < least {
		t.fail(name, fmt.Errorf("want a number from %g, got %q", least, s))
		return least
	}
	return v
}

// whole returns a whole number of at least least.
func (t *table) whole(name string, least int) int {
	s := t.text(name)
	v, err := strconv.Atoi(s)
	if err != nil || v < least {
		t.fail(name, fmt.Errorf("want a whole number from %d, got %q", least, s))
		return least
	}
	return v
}

// maxSize bounds numbers of GPUs and workers, so that a typo in a trace is an error and not
// a table of a billion step times.
const maxSize = 1 << 17

// size returns a number of GPUs or workers of at least least.
func (t *table) size(name string, least int) int {
	v := t.whole(name, least)
	if v > maxSize {
		t.fail(name, fmt.Errorf("want at most %d, got %d", maxSize, v))
		return least
	}
	return v
}

// clock returns a time in seconds: a number, or a date, in UTC unless it has an offset.
func (t *table) clock(name string) float64 {
	s := t.text(name)
	v, err := parseClock(s)
	if err != nil {
		t.fail(name, err)
	}
	return v
}

// between returns the seconds from the time in one field to that in another.
func (t *table) between(from, to string) float64 {
	seconds := t.clock(to) - t.clock(from)
	if seconds < 0 {
		t.fail(to, fmt.Errorf("ends %.0f s before it starts", -seconds))
	}
	return seconds
}

// parseClock reads seconds or a date such as 2020-06-09 18:41:01.
func parseClock(s string) (float64, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && finite(v) {
		return v, nil
	}
	for _, layout := range []string{time.DateTime, time.DateTime + "Z07:00", time.RFC3339Nano, "2006-01-02T15:04:05"} {
		if d, err := time.Parse(layout, s); err == nil {
			return float64(d.UnixNano()) / 1e9, nil
		}
	}
	return 0, fmt.Errorf("want seconds or a date such as 2020-06-09 18:41:01, got %q", s)
}

// rows calls add for each record of a trace. An error that add returns, or notes in the
// table, either ends the reading or goes to tr.Skipped.
func (t *table) rows(tr *Trace, o Options, add func() error) error {
	for o.MaxJobs == 0 || len(tr.Jobs) < o.MaxJobs {
		err := t.row(add)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !o.Skip:
			return err
		case err != nil:
			tr.Skipped = append(tr.Skipped, err)
		}
	}
	return nil
}

// each calls add for each record, up to the first error.
func (t *table) each(add func() error) error {
	return t.rows(&Trace{}, Options{}, add)
}

// row reads a record and calls add. It returns io.EOF at the end.
func (t *table) row(add func() error) error {
	if err := t.next(); err != nil {
		return err
	}
	err := add()
	if t.err != nil {
		return t.err
	}
	var placed *Error
	if err != nil && !errors.As(err, &placed) {
		err = &Error{File: t.file, Line: t.line, Err: err}
	}
	return err
}
