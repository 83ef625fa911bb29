// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// TestParse_HostileLineIsRefused has lines that anyone may send to the autoscaler's API. If
// one of them reached HCL's parser, a stack overflow would end the process, so this test
// would crash rather than fail.
func TestParse_HostileLineIsRefused(t *testing.T) {
	for name, piece := range map[string]string{
		"lists": "[", "parentheses": "(", "signs": "!", "conditions": "a?", "templates": `"${`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{65 << 10, 4 << 10, 4 << 20} {
				_, err := builtin.Policies.Parse("fifo(a=" + strings.Repeat(piece, size/len(piece)) + ")")
				must.ErrorContains(t, err, "at most")
				must.Less(t, 500, len(err.Error()))
			}
		})
	}
}

func TestParse_LongNameIsNotRepeated(t *testing.T) {
	_, err := builtin.Policies.Parse(strings.Repeat("x", 1<<20))
	must.Error(t, err)
	must.Less(t, 1000, len(err.Error()))
}

// TestParse_ValueCostsNoMoreThanItsLine has short lines whose values would take hours and
// gigabytes: each level of for multiplies by eight, and a number is written out in full if
// a text is expected.
func TestParse_ValueCostsNoMoreThanItsLine(t *testing.T) {
	nested := "0"
	for i := range 12 {
		nested = fmt.Sprintf("[for x%d in [0,0,0,0,0,0,0,0]: %s]", i, nested)
	}
	for name, tc := range map[string]struct{ line, want string }{
		"nested for":               {"tiresias(thresholds=" + nested + ")", "cannot contain for expressions"},
		"for in an object":         {"weighted-fair(shares={for k in [1]: k => k})", "cannot contain for expressions"},
		"for in a template":        {`tiresias(order="%{for x in [1]}x%{endfor}")`, "cannot contain for expressions"},
		"a number as a text":       {"tiresias(order=1e600000000)", "at most 1e308"},
		"a small one":              {"tiresias(order=1e-600000000)", "at most 1e308"},
		"a number as a key":        {"weighted-fair(shares={(1e600000000)=1})", "at most 1e308"},
		"a number in a template":   {`tiresias(order="${1e600000000}")`, "at most 1e308"},
		"a number below operators": {"tiresias(starvation=-(1e600000000))", "at most 1e308"},
		"beyond all numbers":       {"tiresias(starvation=1e99999999999)", ""},
		"a product":                {"tiresias(order=" + strings.Repeat("1e308*", 50) + "1)", `must be`},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, err := builtin.Policies.Parse(tc.line)
				done <- err
			}()
			select {
			case err := <-done:
				must.ErrorContains(t, err, tc.want)
			case <-time.After(time.Minute):
				t.Fatal("its value is still being made")
			}
		})
	}
	_, err := builtin.Policies.Parse("tiresias(thresholds=[16 * 3600, -1e308 / -1e300], starvation=0.5)")
	must.NoError(t, err)
}
