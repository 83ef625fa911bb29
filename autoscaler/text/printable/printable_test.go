// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package printable

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestText(t *testing.T) {
	must.Eq(t, "a\nä→2 �[31m��", Text("a\nä→2 \x1b[31m\r\u202e"))
}

func TestLine(t *testing.T) {
	must.Eq(t, `a\nä→2 \x1b[31m\r\u202e`, Line("a\nä→2 \x1b[31m\r\u202e"))
	long := Line(strings.Repeat("ä", maxLine))
	must.Eq(t, strings.Repeat("ä", maxLine/2)+"…", long)
	must.Eq(t, "a"+strings.Repeat("ä", (maxLine-1)/2)+"…", Line("a"+strings.Repeat("ä", maxLine)))
}
