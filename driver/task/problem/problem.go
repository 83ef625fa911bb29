// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package problem is how all programs state what is wrong in a configuration: where it
// stands, what is wrong, and what to do about it.
//
//	package taskconfig and what it asks ──┐             ┌──> task event, kolo-worker's output
//	plugin's config ──────────────────────┼──> List ────┼──> scaling event, status
//	package jobspec, the node pool ───────┘             └──> lines of `kolo job lint`
//
// Programs find the place of a problem by its Field, never by its text.
package problem

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong in a configuration. It is an error.
type Problem struct { //nolint:errname // most are parts of a List, which is the error
	// Field is the path to what is wrong, in the words of the file that it stands in:
	// config.torch.backend and resources.device are read from the task's block on,
	// group "workers": scaling.min from the job's, and in an agent's configuration,
	// plugin "nomad-driver-torch": config.interface. A block's label is quoted as Go
	// does. What is wrong outside of files is named, such as /dev/shm. Empty where there
	// is no one place.
	Field string
	// Value is what is given there, as the file has it; empty where Text does without.
	Value string
	// Text states what is wrong, Remedy what to do about it, if Text does not.
	Text, Remedy string
}

// New returns a problem of a field with a value, nil for none.
func New(field string, value any, text, remedy string) Problem {
	return Problem{Field: field, Value: literal(value), Text: text, Remedy: remedy}
}

// Of returns the problem of a field with a value that err refuses. The text and the
// remedy are those of err, if that is a Problem.
func Of(field string, value any, err error) Problem {
	p, found := errors.AsType[Problem](err)
	if !found {
		p.Text = err.Error()
	}
	return New(field, value, p.Text, p.Remedy)
}

// literal writes a value as it stands in a jobspec.
func literal(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return strconv.Quote(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// Error is one line: field = value: text; remedy. Users know the fields of a task's
// config by their bare names.
func (p Problem) Error() string {
	text, where := p.Text, strings.TrimPrefix(p.Field, "config.")
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	if p.Value != "" {
		where += " = " + p.Value
	}
	if where == "" {
		return text
	}
	return where + ": " + text
}

// List is all that is wrong with a configuration, so that a user who made three mistakes
// need not submit the job three times.
type List []Problem //nolint:errname // an error only once Err returns it

// Add adds the problem of a field with a value, nil for none.
func (l *List) Add(field string, value any, text, remedy string) {
	*l = append(*l, New(field, value, text, remedy))
}

// Err is nil when there are none.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Error is one line: task events have no room for more.
func (l List) Error() string { return strings.Join(l.Strings(), "; ") }

// Text is a line for each problem.
func (l List) Text() string { return strings.Join(l.Strings(), "\n") }

// Strings are the problems, a line each.
func (l List) Strings() []string {
	var lines []string
	for _, p := range l {
		lines = append(lines, p.Error())
	}
	return lines
}
