// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package printable replaces or escapes characters that control a terminal or end a line
// of a log. Users choose the names of their jobs and groups, and Nomad accepts escape
// sequences in them.
package printable

import (
	"strconv"
	"strings"
	"unicode"
)

// Text returns s for display on a terminal: it keeps newlines, and replaces all other
// characters that are not printable.
func Text(s string) string { return replaced(s, '\n') }

// Cell returns s for a cell of a table: like Text, but it also replaces newlines.
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
