// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package problem describes problems in a configuration, for all programs: the place, what is wrong
// there, and the remedy.
//
//	package taskconfig and what it asks ──┐             ┌──> task event, kolo-worker's output
//	plugin's config ──────────────────────┼──> List ────┼──> scaling event, status
//	package jobspec, the node pool ───────┘             └──> lines of `kolo job lint`
//
// Programs identify the place of a problem by its Field, never by its text.
package problem

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong in a configuration. It is an error.
type Problem struct { //nolint:errname // most are parts of a List, which is the error
	// Field is the path to the wrong setting, in the terms of its file. config.torch.backend and
	// resources.device start at the task's block, group "workers": scaling.min at the job's, and
	// plugin "nomad-driver-torch": config.interface at an agent's configuration. A block's label is
	// quoted as in Go. A place outside of files is named, such as /dev/shm. Field is empty if there
	// is no single place.
	Field string
	// Value is the given value, as in the file; empty if Text does not need it.
	Value string
	// Text states what is wrong, and Remedy what to do about it unless Text does.
	Text, Remedy string
}

// New returns the problem of a field with a value; nil means no value.
func New(field string, value any, text, remedy string) Problem {
	return Problem{Field: field, Value: literal(value), Text: text, Remedy: remedy}
}

// Of returns the problem of a field with a value that err refuses. If err is a Problem, it provides
// the text and the remedy.
func Of(field string, value any, err error) Problem {
	p, found := errors.AsType[Problem](err)
	if !found {
		p.Text = err.Error()
	}
	return New(field, value, p.Text, p.Remedy)
}

// literal returns a value as written in a jobspec.
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

// Error returns one line: field = value: text; remedy. For the fields of a task's config it uses
// the bare names that users know.
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

// List holds all problems of a configuration, so that a user who made three mistakes need
// not submit the job three times.
type List []Problem //nolint:errname // an error only once Err returns it

// Add adds the problem of a field with a value; nil means no value.
func (l *List) Add(field string, value any, text, remedy string) {
	*l = append(*l, New(field, value, text, remedy))
}

// Err returns nil if there are no problems, otherwise the list.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Error returns one line, because task events have no room for more.
func (l List) Error() string { return strings.Join(l.Strings(), "; ") }

// Text returns one line per problem.
func (l List) Text() string { return strings.Join(l.Strings(), "\n") }

// Strings returns the problems, one line each.
func (l List) Strings() []string {
	var lines []string
	for _, p := range l {
		lines = append(lines, p.Error())
	}
	return lines
}
