// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// A policy that has decided before decides as one that has just started.
func TestPolicy_RemembersByTheStateAlone(t *testing.T) {
	s := crowd(10, 100, 400)
	fresh := func() policy.Policy { return New(treeOf(t), policyOf(t, "kolo"), nil) }
	used := fresh()
	var states [][]byte
	for step := range 4 {
		s.Changed = step == 0
		got, want := used.Allocate(s), fresh().Allocate(s)
		must.Eq(t, want, got)
		states = append(states, slices.Clone(got.State))
		s.Now, s.State = s.Now+300, got.State
	}
	for _, state := range [][]byte{states[0], states[3], nil, []byte("of another policy")} {
		s.State = state
		want := fresh().Allocate(s)
		must.Eq(t, want, used.Allocate(s))
		clear(want.State) // states that were returned may change
		s.State = slices.Clone(state)
		must.Eq(t, fresh().Allocate(s), used.Allocate(s))
	}
}

// A state that did not change is neither decoded nor encoded again.
func TestPolicy_KeepsTheStateThatItReturned(t *testing.T) {
	s := crowd(10, 100, 400)
	p := New(treeOf(t), policyOf(t, "fifo"), nil).(*Policy)
	s.State = p.Allocate(s).State
	saved := p.saved.Load()
	must.True(t, p.load(s) == saved)
	s.Changed = false
	again := p.Allocate(s)
	must.Eq(t, s.State, again.State)
	must.True(t, p.saved.Load() == saved)
	again.State[0] = 'x'
	must.Eq(t, saved.text, string(s.State))
}
