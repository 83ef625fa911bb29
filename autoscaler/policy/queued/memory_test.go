// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sync/errgroup"

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

// Decisions that are made at the same time do not use each other's memory.
func TestPolicy_DecisionsAtTheSameTime(t *testing.T) {
	p := New(treeOf(t), policyOf(t, "kolo"), nil)
	var g errgroup.Group
	for i := range 4 {
		s := crowd(5, 50*(i+1), 400)
		want := New(treeOf(t), policyOf(t, "kolo"), nil).Allocate(s)
		g.Go(func() error {
			for range 20 {
				if got := p.Allocate(s); !reflect.DeepEqual(want, got) {
					return fmt.Errorf("with %d jobs: got %v, want %v", len(s.Jobs), got, want)
				}
			}
			return nil
		})
	}
	must.NoError(t, g.Wait())
}

// An external policy that takes too long may read the jobs of its snapshot after the decision.
func TestPolicy_LeavesJobsToPoliciesThatMayFail(t *testing.T) {
	var seen [][]policy.Job
	p := New(treeOf(t), keeping{policyOf(t, "fifo"), &seen}, nil)
	for i := range 2 {
		s := crowd(1, 10, 40)
		s.Jobs = append(s.Jobs, policy.Job{ID: "other", Namespace: "other", Min: 1, Max: 1})
		for k := range s.Jobs {
			s.Jobs[k].Priority = i
		}
		_, err := p.(Fallible).TryAllocate(s)
		must.NoError(t, err)
	}
	must.Eq(t, 0, seen[0][0].Priority)
}

// keeping is a policy that may fail, and keeps the jobs that it has seen.
type keeping struct {
	policy.Policy
	seen *[][]policy.Job
}

func (k keeping) TryAllocate(s *policy.Snapshot) (policy.Decision, error) {
	*k.seen = append(*k.seen, s.Jobs)
	return k.Allocate(s), nil
}
