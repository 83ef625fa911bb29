// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nesting limits the length and depth of HCL text before HCL's own parser
// sees it.
//
// That parser is recursive and has no bound of its own: each opening bracket,
// each unary operator and each branch of a conditional costs it up to 16 KiB
// of stack per byte of text, and a goroutine that needs more than 1 GiB of
// stack ends the process, which no recover prevents. So every text is measured
// first, with HCL's lexer, which does not recurse:
//
//	text ──> length ──> lexer ──> depth ──> HCL's parser
//
// For a line of LineBytes, either bound alone is enough: a test measures the
// stack that the worst such line needs.
package nesting

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	// LineBytes is the length of the longest line that is parsed: a policy with
	// its options.
	LineBytes = 4 << 10
	// fileBytes is the length of the longest configuration file.
	fileBytes = 1 << 20
	// mostLevels is how deep a text may nest, as depthOf counts it.
	mostLevels = 64
)

// Line returns an error for a line that is too long, or nested too deeply, to be
// parsed as an HCL expression. The error uses what as the name of the line's
// content.
func Line(what string, src []byte) error {
	if len(src) > LineBytes {
		return fmt.Errorf("%s has %d bytes; at most %d are read", what, len(src), LineBytes)
	}
	tokens, _ := hclsyntax.LexExpression(src, what, hcl.InitialPos) // the parser reports what is no token
	return limit(what, tokens)
}

// File returns an error for the text of a file that is too long, or nested too
// deeply, to be parsed as HCL.
func File(name string, src []byte) error {
	if len(src) > fileBytes {
		return fmt.Errorf("%s: the file has %d bytes; at most %d are read", name, len(src), fileBytes)
	}
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // the parser reports what is no token
	return limit(name, tokens)
}

func limit(what string, tokens hclsyntax.Tokens) error {
	depth, at := depthOf(tokens)
	if depth > mostLevels {
		return fmt.Errorf("%s:%d,%d: nested %d levels deep; at most %d are read: split the expression, or write fewer brackets and operators",
			what, at.Start.Line, at.Start.Column, depth, mostLevels)
	}
	return nil
}

// depthOf returns an upper bound on the depth to which HCL's parser and
// evaluator recurse for these tokens, and the place at which it is reached.
// Each open bracket, quote and template is a level. Each token of the
// expressions around it is a level as well, except names and literals: an
// expression of n operators is a tree of at most n levels. A comma ends an
// expression, and so does a newline in braces and outside of brackets.
func depthOf(tokens hclsyntax.Tokens) (deepest int, at hcl.Range) {
	levels := []level{{ends: hclsyntax.TokenEOF}} // the text itself
	depth := 0
	add := func(n int) {
		levels[len(levels)-1].tokens += n
		depth += n
	}
	for _, t := range tokens {
		top := levels[len(levels)-1]
		end, opens := ends[t.Type]
		switch {
		case t.Type == top.ends:
			if len(levels) > 1 {
				add(-top.tokens)
				levels = levels[:len(levels)-1]
				add(1) // it is an operand now
			}
		case opens:
			levels = append(levels, level{ends: end})
			add(1)
		case t.Type == hclsyntax.TokenComma, t.Type == hclsyntax.TokenNewline && top.lines():
			add(min(1, len(levels)-1) - top.tokens)
		case !leaves[t.Type]:
			add(1)
		}
		if depth > deepest {
			deepest, at = depth, t.Range
		}
	}
	return deepest, at
}

// level is an open bracket, or the text itself.
type level struct {
	ends   hclsyntax.TokenType // what closes it
	tokens int                 // of the expression that is open in it, and the bracket
}

// lines reports whether a newline ends an expression here.
func (l level) lines() bool {
	return l.ends == hclsyntax.TokenEOF || l.ends == hclsyntax.TokenCBrace
}

// ends maps each token that opens a level to the one that closes it.
var ends = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOBrace:          hclsyntax.TokenCBrace,
	hclsyntax.TokenOBrack:          hclsyntax.TokenCBrack,
	hclsyntax.TokenOParen:          hclsyntax.TokenCParen,
	hclsyntax.TokenOQuote:          hclsyntax.TokenCQuote,
	hclsyntax.TokenOHeredoc:        hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp:  hclsyntax.TokenTemplateSeqEnd,
	hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

// leaves are the tokens that no other can stand below.
var leaves = map[hclsyntax.TokenType]bool{
	hclsyntax.TokenIdent: true, hclsyntax.TokenNumberLit: true, hclsyntax.TokenQuotedLit: true, hclsyntax.TokenStringLit: true,
	hclsyntax.TokenNewline: true, hclsyntax.TokenComment: true, hclsyntax.TokenEOF: true,
}
