// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package printable

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds what is kept of a line that a slot writes, in bytes.
const maxText = 1 << 10

// escapes are the control sequences of terminals (ECMA-48): CSI with its
// parameters, OSC and its like with their text, and those of two bytes.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)`)

// Text returns text of a slot as it may stand in a task event, in the status
// and in a log: one line of bounded length, without what terminals act on and
// without characters that hide or reorder others. All text of slots passes
// through here on its way into the agent; the slots' own logs are left as they
// are.
func Text(text string) string {
	cut := len(text) > maxText
	if cut {
		text = text[:maxText] // in the middle of a character is fine, see below
	}
	text = escapes.ReplaceAllLiteralString(text, "")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r == utf8.RuneError || !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, text)
	if cut {
		text += "…"
	}
	return text
}
