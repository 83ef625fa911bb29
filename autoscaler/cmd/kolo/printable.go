// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"unicode"
)

// printable is a text without what a terminal would obey: names of jobs and
// groups are their owners' choice, and Nomad lets escape sequences through.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
