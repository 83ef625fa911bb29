// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plaintext cleans text that a task has written, before it is shown in a
// task event, a status or a log: a terminal must not act on it, and it must not
// pass for another line.
package plaintext

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limit is what is kept of a line where nothing else is given, in bytes.
const Limit = 1 << 10

// escapes are the control sequences of terminals (ECMA-48): CSI with its
// parameters, OSC and its like with their text, and those of two bytes.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)`)

// costly is how many times longer than its limit a text may be: what is beyond is
// cut before anything else.
const costly = 4

// Line makes one line of a text, of at most limit bytes and a mark that it was cut:
// without control sequences, control characters and such as hide or reorder others.
func Line(text string, limit int) string {
	text = text[:min(len(text), costly*limit)] // in the middle of a character is fine, see below
	text = strings.ToValidUTF8(text, "")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, escapes.ReplaceAllLiteralString(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.TrimRight(strings.ToValidUTF8(text[:limit], ""), " ") + " …"
	}
	return text
}
