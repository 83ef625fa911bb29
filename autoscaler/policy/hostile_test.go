// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestParse_HostileLineIsRefused has lines that anyone may send to the agent's
// API. One that reaches HCL's parser ends the process with a stack overflow,
// which nothing recovers from: this test would not fail, but be gone.
func TestParse_HostileLineIsRefused(t *testing.T) {
	for name, piece := range map[string]string{
		"lists": "[", "parentheses": "(", "signs": "!", "conditions": "a?", "templates": `"${`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{65 << 10, 4 << 10, 4 << 20} {
				_, err := Parse("fifo(a=" + strings.Repeat(piece, size/len(piece)) + ")")
				must.ErrorContains(t, err, "at most")
				must.Less(t, 500, len(err.Error()))
			}
		})
	}
}

func TestParse_LongNameIsNotRepeated(t *testing.T) {
	_, err := Parse(strings.Repeat("x", 1<<20))
	must.Error(t, err)
	must.Less(t, 1000, len(err.Error()))
}
