// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package suggest

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestWord(t *testing.T) {
	words := []string{"stacks", "status", "simulate", "plan", "pause", "policy", "job", "-pool"}
	for word, want := range map[string]string{
		"stauts": "status", "stacsk": "stacks", "statu": "status", "Status": "status", "polcy": "policy", "plna": "plan", "jobs": "job", "-pol": "-pool",
		"version": "", "": "", "x": "", "jb": "job", "simulation": "",
	} {
		must.Eq(t, want, Word(word, words), must.Sprint(word))
	}
}
