// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package expand

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// Variable returns the name of the variable that lists the values of a level. It is
// a valid HCL identifier.
func Variable(l topology.Level) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' {
			return '_'
		}
		return r
	}, l.Name)
}

// Vars returns a variable file with the values of a level.
func Vars(l topology.Level, values []string) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "# Values of %s, as kolo topology vars found them.\n%s = [\n", l.Name, Variable(l))
	for _, v := range values {
		fmt.Fprintf(&out, "  %s,\n", quoted(v))
	}
	out.WriteString("]\n")
	return []byte(out.String())
}

// quoted returns a text as an HCL string.
func quoted(s string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes())
}
