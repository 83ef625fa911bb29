// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plaintext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/shoenig/test/must"
)

func TestLine(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"plain":               {"ring 3: ranks 2-3 of 8", "ring 3: ranks 2-3 of 8"},
		"lines":               {"a\nb\r\n\tc\u2028d", "a b c d"},
		"colours":             {"\x1b[1;31mError\x1b[0m: x", "Error: x"},
		"cursor":              {"done\x1b[2K\x1b[1Aforged", "doneforged"},
		"clears the screen":   {"\x1b[2J\x1b[Hjob complete", "job complete"},
		"sets a title":        {"\x1b]0;owned\x07a\x1b]8;;http://x\x1b\\link", "alink"},
		"clipboard":           {"\x1b]52;c;cm0gLXJmIC8=\x1b\\text", "text"},
		"a title without end": {"text\x1b]0;owned", "text"},
		"half a sequence":     {"a\x1b[12", "a"},
		"a lone escape":       {"a\x1b", "a"},
		"8-bit controls":      {"a\u009b2Jb\x9b3Jc", "a2Jb3Jc"},
		"backspace":           {"no\b\byes", "noyes"},
		"overwrites itself":   {"bad\rgood\b\x00\x7f", "bad good"},
		"reorders":            {"user\u202egnp.exe\u200b", "usergnp.exe"},
		"not UTF-8":           {"a\xff\xfeb", "ab"},
		"letters of all":      {"größer als 3 μs 環 → 日本", "größer als 3 μs 環 → 日本"},
		"bell and deletes":    {"a\a\x7fb", "ab"},
		"nothing remains":     {"\x00\x1b[m ", ""},
		"empty":               {"", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { must.Eq(t, c.want, Line(c.text, Limit)) })
	}
	must.Eq(t, strings.Repeat("é", Limit/2)+" …", Line(strings.Repeat("é", Limit), Limit))
	must.Eq(t, "", Line(strings.Repeat("\x1b[0m", costly*Limit)+"far behind", Limit))
}

// FuzzLine: whatever a task writes, the result is one line of bounded length
// without terminal commands.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"", "Error: x", "\x1b[31mred", "\x1b]0;t\x07", "a\u202eb", "\xff", "\x1b\x1b[[mm", strings.Repeat("\x1b[0m", 300), strings.Repeat("é ", 400)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Line(text, Limit)
		must.True(t, utf8.ValidString(got))
		must.LessEq(t, Limit+len(" …"), len(got))
		must.Eq(t, -1, strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }))
		must.Eq(t, got, Line(got, Limit), must.Sprint("what is clean stays as it is"))
	})
}
