// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nesting

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/shoenig/test/must"
)

// deep are the beginnings of expressions that nest by being repeated.
var deep = map[string]string{
	"lists": "[", "parentheses": "(", "objects": "{a=", "object keys": "{(", "not": "!", "minus": "-", "both signs": "!-", "calls": "f(", "indexes": "x[",
	"conditions": "a?", "conditions in the else": "a?b:", "constant conditions": "true?1:", "templates": `"${`, "templates in keys": `{"${`, "trimmed templates": `"${~`,
	"controls": `"%{if `, "heredocs": "<<A\n${", "for lists": "[for x in ", "for bodies": "[for x in y:", "for objects": "{for x in y:x=>",
	"signs in lists": "[-", "signs in parentheses": "-(", "mixed brackets": "[(", "object colons": "{a:", "spread signs": "- ", "signs in lines": "(-\n",
}

// wide are expressions that grow by being repeated, as operands of one another.
var wide = map[string]string{
	"sums": "1+", "alternatives": "a||", "comparisons": "1==", "indexes": "x[y]", "splats": "a[*].", "attributes": "a.", "templates": `"${a}`,
}

func repeated(piece string, n int) []byte {
	return []byte("{a=" + strings.Repeat(piece, n/len(piece))[:n/len(piece)*len(piece)])
}

// TestLine_WorstOfItsLengthFitsTheStack measures the stack that HCL's parser needs for the
// longest lines that are refused for their depth. Even if they were accepted, they would
// not end the process.
func TestLine_WorstOfItsLengthFitsTheStack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // stacks shrink with a collection
	const goStack = 1 << 30
	for _, pieces := range []map[string]string{deep, wide} {
		for name, piece := range pieces {
			t.Run(name, func(t *testing.T) {
				grown := make(chan uint64)
				go func() {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					e, diags := hclsyntax.ParseExpression(repeated(piece, LineBytes-4), name, hcl.InitialPos)
					if !diags.HasErrors() {
						_, _ = e.Value(nil)
					}
					runtime.ReadMemStats(&after)
					grown <- after.StackInuse - min(before.StackInuse, after.StackInuse)
				}()
				must.Less(t, goStack/8, <-grown)
			})
		}
	}
}

func TestLine_RefusesWhatIsTooDeepOrTooLong(t *testing.T) {
	for _, pieces := range []map[string]string{deep, wide} {
		for name, piece := range pieces {
			t.Run(name, func(t *testing.T) {
				must.ErrorContains(t, Line("policy x", repeated(piece, LineBytes-4)), "policy x:")
				must.ErrorContains(t, Line("policy x", repeated(piece, LineBytes-4)), "levels deep; at most 64 are read")
				must.ErrorContains(t, Line("policy x", repeated(piece, 64<<10)), "policy x has 655")
			})
		}
	}
}

func TestFile_RefusesWhatIsTooDeepOrTooLong(t *testing.T) {
	for name, piece := range deep {
		t.Run(name, func(t *testing.T) {
			must.ErrorContains(t, File("kolo.hcl", repeated(piece, 64<<10)), "kolo.hcl:")
		})
	}
	must.ErrorContains(t, File("kolo.hcl", make([]byte, fileBytes+1)), "kolo.hcl: the file has 1048577 bytes")
}

func TestDepth(t *testing.T) {
	for name, tc := range map[string]struct {
		src  string
		want int
	}{
		"a word":                  {`a`, 0},
		"an attribute":            {`a = 1`, 1},
		"lines":                   {"a = 1\nb = 2\nc = -3\n", 2},
		"a list":                  {`a = [1, 2, -3, 4]`, 3},
		"siblings do not add up":  {`a = [[1], [2], [3], {b = 4}]`, 4},
		"operands do":             {`a = 1 + 2 * 3 - f(4)`, 5},
		"a quote":                 {`a = "text, with, commas"`, 2},
		"a template":              {`a = "x ${b + 1} y"`, 4},
		"a closing bracket alone": {`a = ]]]`, 4},
		"crossed brackets":        {`a = [}[}[}`, 7},
		"a block":                 {"pool \"x\" {\n  device = \"gpu\"\n  policy \"kolo\" {}\n}\n", 4},
		"a comment":               {"# [[[[[[\na = 1", 1},
		"a list over lines":       {"a = [\n1,\n2,\n]", 2},
	} {
		t.Run(name, func(t *testing.T) {
			tokens, _ := hclsyntax.LexConfig([]byte(tc.src), name, hcl.InitialPos)
			got, _ := depthOf(tokens)
			must.Eq(t, tc.want, got)
		})
	}
}
