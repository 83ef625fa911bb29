// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package suggest finds the word that a user probably meant to type, for messages
// about unknown commands, flags and keys.
package suggest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Word returns the candidate closest to a word, or "" if no candidate is close. A
// close candidate differs by at most two inserted, deleted or replaced letters, and
// by fewer letters than the word has. Case is ignored. If several candidates are
// equally close, Word prefers one with the same letters, because swapped letters are the
// most common mistake, and then the first one in alphabetical order.
func Word(word string, candidates []string) string {
	best, least := "", min(3, max(1, len(word)))
	word = strings.ToLower(word)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if lower := strings.ToLower(c); max(len(lower)-len(word), len(word)-len(lower)) >= least {
			continue // words come from anyone, and comparing long ones takes long
		} else if d := levenshtein.Distance(word, lower, nil); d < least || d == least && best != "" && swapped(word, lower) && !swapped(word, strings.ToLower(best)) {
			best, least = c, d
		}
	}
	return best
}

// swapped reports whether two words have the same letters.
func swapped(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values([]rune(a))), slices.Sorted(slices.Values([]rune(b))))
}

// Hint returns the end of a message about a word that is not among the candidates:
// "; did you mean …?" with prefix and the closest candidate, or "" if no candidate
// is close.
func Hint(prefix, word string, candidates []string) string {
	if meant := Word(word, candidates); meant != "" {
		return fmt.Sprintf("; did you mean %q?", prefix+meant)
	}
	return ""
}
