// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nesting

import (
	"runtime/debug"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// FuzzLine: a line that Line accepts is parsed and evaluated with a small part of the
// stack. A line that needed more would end the process, which the fuzzer notices.
func FuzzLine(f *testing.F) {
	for _, pieces := range []map[string]string{deep, wide} {
		for _, piece := range pieces {
			f.Add(string(repeated(piece, 100)))
			f.Add(string(repeated(piece, LineBytes)))
		}
	}
	f.Add("{a=[}[}[}[}]]]]")
	f.Add("{a=\"%{for x in y}${x}%{endfor}%{if a}b%{else}c%{endif}\"}")
	f.Add("{a=<<-EOT\n  ${[<<B\nx\nB\n]}\nEOT\n}")
	f.Fuzz(func(t *testing.T, src string) {
		if Line("line", []byte(src)) != nil {
			return
		}
		defer debug.SetMaxStack(debug.SetMaxStack(16 << 20))
		done := make(chan struct{})
		go func() {
			defer close(done)
			e, diags := hclsyntax.ParseExpression([]byte(src), "line", hcl.InitialPos)
			if !diags.HasErrors() {
				_, _ = e.Value(nil)
			}
		}()
		<-done
	})
}
