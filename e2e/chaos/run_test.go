// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestARunWithoutTroubleFails(t *testing.T) {
	for _, quiet := range []*trial{{}, {changes: 3}} {
		must.ErrorContains(t, quiet.checkTrouble(), "let the run last longer")
	}
	must.NoError(t, (&trial{changes: 3, killed: 1}).checkTrouble())
}
