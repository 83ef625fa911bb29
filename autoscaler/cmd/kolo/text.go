// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// table aligns cells in columns; the first row is the heading.
func table(rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(cells(r), "\t")) // a strings.Builder does not fail
	}
	_ = w.Flush() // a strings.Builder does not fail
	return strings.TrimRight(out.String(), "\n")
}

// cells makes texts safe for table cells, because users choose names.
func cells(row []string) []string {
	out := make([]string, len(row))
	for i, text := range row {
		out[i] = printable.Cell(text)
	}
	return out
}

// wrap breaks text at spaces so that no line is longer than width. All lines but
// the first start with indent.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			b.WriteString("\n" + indent)
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

func (m meta) printJSON(v any) int {
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		m.UI.Error(err.Error())
		return 1
	}
	m.UI.Output(string(out))
	return 0
}

// counted returns a number of things, such as "1 node" or "2 nodes".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
