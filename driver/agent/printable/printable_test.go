// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/shoenig/test/must"
)

func TestPrintable(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":               {"ValueError: größer als 3 μs — 日本", "ValueError: größer als 3 μs — 日本"},
		"colours":             {"\x1b[1;31mError\x1b[0m: x", "Error: x"},
		"clears the screen":   {"\x1b[2J\x1b[Hjob complete", "job complete"},
		"sets a title":        {"\x1b]0;owned\x07a\x1b]8;;http://x\x1b\\link", "alink"},
		"8-bit controls":      {"a\u009b2Jb\x9b3Jc", "a2Jb3Jc"},
		"overwrites itself":   {"bad\rgood\b\x00\x7f", "bad good"},
		"forges a line":       {"a\nkolo: b\u2028c", "a kolo: bc"},
		"reorders":            {"user\u202egnp.exe\u200b", "usergnp.exe"},
		"not UTF-8":           {"a\xff\xfeb", "ab"},
		"half a sequence":     {"a\x1b[12", "a"},
		"a lone escape":       {"a\x1b", "a"},
		"a title without end": {"a\x1b]0;rest", "a"},
		"tabs":                {"a\tb", "a b"},
		"empty":               {"", ""},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, c.want, Text(c.text)) })
	}
	long := Text(strings.Repeat("é", maxText))
	must.LessEq(t, maxText+len("…"), len(long))
	must.StrHasSuffix(t, "é…", long)
}

// FuzzPrintable: of anything that a slot writes, what is kept is one line of bounded
// length that no terminal acts on.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "Error: x", "\x1b[31mred", "\x1b]0;t\x07", "a\u202eb", "\xff", "\x1b\x1b[[mm", strings.Repeat("\x1b[0m", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Text(text)
		must.True(t, utf8.ValidString(got))
		must.LessEq(t, maxText+len("…"), len(got))
		must.Eq(t, -1, strings.IndexFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }))
		must.Eq(t, got, Text(got), must.Sprint("what is clean stays as it is"))
	})
}
