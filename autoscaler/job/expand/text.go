// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package expand

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// text is a file that is edited in place: bytes that no edit concerns stay the
// same.
type text struct {
	name  string
	src   []byte
	edits []edit
}

// edit replaces the bytes from from to to.
type edit struct {
	from, to int
	with     string
}

func (t *text) replace(r hcl.Range, with string) {
	t.edits = append(t.edits, edit{r.Start.Byte, r.End.Byte, with})
}

// insert adds a text before a byte, after all earlier insertions there.
func (t *text) insert(at int, with string) {
	t.edits = append(t.edits, edit{at, at, with})
}

// edited returns the text with all edits applied. Edits must not overlap.
func (t *text) edited() []byte {
	slices.SortStableFunc(t.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out bytes.Buffer
	at := 0
	for _, e := range t.edits {
		out.Write(t.src[at:e.from])
		out.WriteString(e.with)
		at = e.to
	}
	out.Write(t.src[at:])
	return out.Bytes()
}

// of returns the text of a range.
func (t *text) of(r hcl.Range) string { return string(t.src[r.Start.Byte:r.End.Byte]) }

// lineOf returns the offset of the line on which a range begins.
func (t *text) lineOf(r hcl.Range) int {
	return bytes.LastIndexByte(t.src[:r.Start.Byte], '\n') + 1
}

// indentOf returns the indentation of the line on which a range begins.
func (t *text) indentOf(r hcl.Range) string {
	line := t.src[t.lineOf(r):]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// inside returns the indentation of a line in a block that is being indented.
func (t *text) inside(b *hclsyntax.Block) string { return t.indentOf(b.TypeRange) + "    " }

// indent indents the lines that begin within a range of bytes, except empty lines
// and the lines of heredocs, which are values.
func (t *text) indent(from, to int, by string) {
	values := t.heredocs()
	for at := from; ; {
		next := bytes.IndexByte(t.src[at:to], '\n')
		if next < 0 {
			return
		}
		at += next + 1
		blank := t.src[at] == '\n' || t.src[at] == '\r'
		if !blank && !slices.ContainsFunc(values, func(v [2]int) bool { return v[0] <= at && at < v[1] }) {
			t.insert(at, by)
		}
	}
}

// heredocs returns, for each heredoc, the offset of its text and the offset after
// its end.
func (t *text) heredocs() [][2]int {
	tokens, _ := hclsyntax.LexConfig(t.src, t.name, hcl.InitialPos) // it was parsed before
	var out [][2]int
	depth := 0
	for _, tok := range tokens {
		opens := tok.Type == hclsyntax.TokenOHeredoc
		if opens && depth == 0 {
			out = append(out, [2]int{tok.Range.End.Byte, len(t.src)})
		}
		if opens {
			depth++
			continue
		}
		if tok.Type != hclsyntax.TokenCHeredoc {
			continue
		}
		if depth--; depth == 0 {
			out[len(out)-1][1] = tok.Range.End.Byte
		}
	}
	return out
}

// wrong returns an error about a place in the text.
func (t *text) wrong(at hcl.Range, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", t.name, at.Start.Line, fmt.Sprintf(format, args...))
}
