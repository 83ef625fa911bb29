// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package printable takes out of a text what a terminal would obey and what
// would end a line of a log. Names of jobs and groups are their owners' choice,
// and Nomad lets escape sequences through.
package printable

import (
	"strconv"
	"strings"
	"unicode"
)

// Text is a text for a terminal: it keeps its lines, and what is not printable
// is replaced.
func Text(s string) string { return replaced(s, '\n') }

// Cell is Text for a cell of a table, which has one line.
func Cell(s string) string { return replaced(s, ' ') }

func replaced(s string, but rune) string {
	return strings.Map(func(r rune) rune {
		if r == but || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// maxLine is how much of a text a line has, in bytes.
const maxLine = 500

// Line returns a text for use within a line: it escapes characters that are not printable,
// and cuts texts that are too long.
func Line(s string) string {
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "") + "…"
	}
	var out strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		out.WriteString(q[1 : len(q)-1])
	}
	return out.String()
}
