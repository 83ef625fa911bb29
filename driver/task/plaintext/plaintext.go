// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package plaintext cleans text written by a task before it is shown in a task
// event, a status or a log. The cleaned text contains no terminal control
// sequences, and cannot be mistaken for another line.
package plaintext

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limit is the usual length limit of a line, in bytes.
const Limit = 1 << 10

// escapes matches terminal control sequences (ECMA-48): CSI with parameters, OSC
// and similar ones with their text, and those of two bytes.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)`)

// costly is how many times longer than its limit a text may be. The rest is cut off
// before anything else.
const costly = 4

// Line returns text as one line of at most limit bytes, plus a mark if it was cut.
// It removes control sequences, control characters, and characters that hide or
// reorder others.
func Line(text string, limit int) string {
	text = text[:min(len(text), costly*limit)] // cutting a character in two is fine, see below
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
