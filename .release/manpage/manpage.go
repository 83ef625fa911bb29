// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package manpage makes manual pages from the help texts that programs print, so that
// there is only one text to maintain.
package manpage

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Page is a manual page of section 1. It begins with the program's name, followed by
// Parts.
type Page struct {
	Name    string
	Summary string // one line, without a full stop
	Version string
	At      time.Time
	Parts   []Part
}

// Part is a section of a page: a heading, and a help text as a program prints it. A
// help text consists of paragraphs, headings that end with a colon, and options that
// begin with a hyphen. The description of an option follows after two spaces or in the
// lines below it. Lines in columns, and lines that are indented deeper than paragraphs,
// are copied unchanged.
type Part struct{ Heading, Help string }

// Roff returns the source of the page, in the macros of man(7).
func (p Page) Roff() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"Kolo %s\" \"Kolo\"\n", escape(strings.ToUpper(p.Name)), p.At.UTC().Format("2006-01-02"), escape(p.Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(p.Name), escape(p.Summary))
	for _, part := range p.Parts {
		fmt.Fprintf(&b, ".SH %s\n", escape(strings.ToUpper(part.Heading)))
		c := converter{out: &b, base: paragraphs(part.Help), headed: true, blank: true}
		for line := range strings.Lines(part.Help) {
			c.line(strings.ReplaceAll(strings.TrimRight(line, " \t\n"), "\t", "    "))
		}
		c.end()
	}
	return []byte(b.String())
}

var (
	heading = regexp.MustCompile(`^\S[^.]{0,60}:$`)
	usage   = regexp.MustCompile(`^[Uu]sage: `)
	option  = regexp.MustCompile(`^ +(-\S*(?: \S+)*)(?:  +(.+))?$`)
	columns = regexp.MustCompile(`\S   *\S`)
)

// paragraphs returns the indentation of a text's paragraphs: the smallest of its
// lines, except headings and lines that state the usage.
func paragraphs(text string) int {
	least := -1
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) == "" || heading.MatchString(line) || usage.MatchString(line) {
			continue
		}
		if n := indent(line); least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// converter writes one text. It is in one state at a time: in a filled paragraph, below
// an option, or among lines that stand as they are.
type converter struct {
	out    *strings.Builder
	base   int
	state  state
	option int  // indentation of the option that the text is below
	headed bool // nothing stands below the heading yet
	blank  bool // the line before is empty
}

type state int

const (
	none state = iota
	filled
	described
	literal
)

func (c *converter) line(line string) {
	n := indent(line)
	m := option.FindStringSubmatch(line)
	defer func() { c.blank = line == "" }()
	switch {
	case line == "":
		switch c.state {
		case literal:
			c.out.WriteByte('\n')
		case filled:
			c.end()
		default:
		}
	case c.blank && heading.MatchString(line):
		c.end()
		fmt.Fprintf(c.out, ".SS %s\n", escape(strings.TrimSuffix(line, ":")))
		c.headed = true
	case usage.MatchString(line):
		c.end()
		c.paragraph()
		fmt.Fprintf(c.out, ".B %s\n", escape(usage.ReplaceAllString(line, "")))
	case c.state == described && n > c.option:
		c.text(strings.TrimSpace(line))
	case m != nil && n <= c.base+2:
		c.end()
		c.state, c.option = described, n
		c.headed = false
		fmt.Fprintf(c.out, ".TP\n.B %s\n", escape(m[1]))
		c.text(m[2])
	case n > c.base || columns.MatchString(line):
		if c.state != literal {
			c.end()
			c.state = literal
			c.paragraph()
			c.out.WriteString(".RS 4\n.nf\n")
		}
		c.text(line[c.base:])
	default:
		if c.state != filled {
			c.end()
			c.state = filled
			c.paragraph()
		}
		c.text(strings.TrimSpace(line))
	}
}

// paragraph begins one; a heading has begun its first.
func (c *converter) paragraph() {
	if !c.headed {
		c.out.WriteString(".PP\n")
	}
	c.headed = false
}

func (c *converter) text(s string) {
	if s != "" {
		c.out.WriteString(escape(s) + "\n")
	}
}

// end leaves the state that the text is in.
func (c *converter) end() {
	if c.state == literal {
		text := strings.TrimRight(c.out.String(), "\n") + "\n"
		c.out.Reset()
		c.out.WriteString(text + ".fi\n.RE\n")
	}
	c.state = none
}

var escaped = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `"`, `\(dq`)

// escape writes text that roff prints as it stands.
func escape(s string) string {
	s = escaped.Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
