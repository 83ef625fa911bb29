// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nearest finds the word that was probably meant by a mistyped one, for
// messages about commands, flags and keys.
package nearest

import (
	"fmt"
	"slices"
	"strings"
)

// Word returns the candidate closest to a word, or "" where none is close: at
// most two letters to insert, delete or replace, and fewer than the word has.
// Case counts for nothing; of equals the first in the alphabet is taken.
func Word(word string, candidates []string) string {
	best, least := "", min(3, max(1, len(word)))
	word = strings.ToLower(word)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if lower := strings.ToLower(c); max(len(lower)-len(word), len(word)-len(lower)) >= least {
			continue // words come from anyone, and comparing long ones takes long
		} else if d := distance(word, lower); d < least {
			best, least = c, d
		}
	}
	return best
}

// Hint is the end of a message about a word, written after prefix, that is none
// of the candidates: "; did you mean …?", or "" where none is close.
func Hint(prefix, word string, candidates []string) string {
	if meant := Word(word, candidates); meant != "" {
		return fmt.Sprintf("; did you mean %q?", prefix+meant)
	}
	return ""
}

// distance is Levenshtein's, of bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
