// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package suggest finds the word that was probably meant by a mistyped one, for
// messages about commands, flags and keys.
package suggest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
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
		} else if d := levenshtein.Distance(word, lower, nil); d < least {
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
