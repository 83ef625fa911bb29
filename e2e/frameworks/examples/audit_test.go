// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package examples

import (
	"fmt"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// numbered gives the steps of processes that do not know the number of their ring, as in
// restart mode, one: a ring is over when a process that has made no step before makes one,
// while all processes of the ring have.
func numbered(r train.Record) train.Record {
	ring, members, seen := 0, 0, map[int]int{}
	numbered := make(train.Record, 0, len(r))
	for _, e := range r {
		if e.Generation == 0 {
			if seen[e.PID] == 0 {
				if members == 0 {
					ring, members = ring+1, e.Size
				}
				seen[e.PID] = ring
				members--
			}
			e.Generation = seen[e.PID]
		}
		numbered = append(numbered, e)
	}
	return numbered
}

// audit returns an error unless the steps that count are 1, 2, 3 … of so many an epoch, and
// each epoch has used the samples of the same epoch of a training of a fixed size, each as
// often as there. A process that is killed may not have recorded its last step.
func audit(r, fixed train.Record, each int) error {
	steps, err := bySteps(numbered(r).Effective())
	if err != nil {
		return err
	}
	expected, err := bySteps(fixed)
	if err != nil {
		return err
	}
	if len(steps) != len(expected) {
		return fmt.Errorf("%d steps count; with a fixed size they are %d", len(steps), len(expected))
	}
	for first := 1; first <= len(expected); first += each {
		left, unseen := map[int]int{}, 0
		for n := first; n < first+each; n++ {
			for _, e := range expected[n] {
				for _, i := range e.Indices {
					left[i]++
				}
			}
			if missing := steps[n][0].Size - len(steps[n]); missing > 0 {
				unseen += missing * len(steps[n][0].Indices)
			}
			for _, e := range steps[n] {
				for _, i := range e.Indices {
					left[i]--
				}
			}
		}
		for i, n := range left {
			if n < 0 {
				return fmt.Errorf("epoch %d: sample %x was used %d times too often", first/each, i, -n)
			}
			if unseen -= n; unseen < 0 {
				return fmt.Errorf("epoch %d: sample %x was used %d times too few", first/each, i, n)
			}
		}
	}
	return nil
}

// bySteps returns what each rank recorded of each step. It returns an error unless the
// steps are 1, 2, 3 …, each recorded by as many ranks as there were, except for one of them.
func bySteps(r train.Record) (map[int]train.Record, error) {
	steps, last := map[int]train.Record{}, 0
	for _, e := range r {
		steps[e.Step] = append(steps[e.Step], e)
		last = max(last, e.Step)
	}
	lacking := 0
	for n := 1; n <= last; n++ {
		if len(steps[n]) == 0 {
			return nil, fmt.Errorf("step %d of %d was not made", n, last)
		}
		size := steps[n][0].Size
		if len(steps[n]) > size {
			return nil, fmt.Errorf("step %d was made by %d of %d ranks", n, len(steps[n]), size)
		}
		lacking += size - len(steps[n])
	}
	if lacking > 1 {
		return nil, fmt.Errorf("%d steps of ranks were not recorded", lacking)
	}
	return steps, nil
}

// The audit sees what goes wrong.
func TestAudit(t *testing.T) {
	fixed := train.Record{
		{Kind: "step", Step: 1, Size: 1, Generation: 1, Indices: []int{1, 2}}, {Kind: "step", Step: 2, Size: 1, Generation: 1, Indices: []int{3, 4}},
		{Kind: "step", Step: 3, Size: 1, Generation: 1, Indices: []int{4, 3}}, {Kind: "step", Step: 4, Size: 1, Generation: 1, Indices: []int{2, 1}},
	}
	changed := func(change func(train.Record) train.Record) error {
		// The second step is lost, and made again by two ranks, which make all that follow.
		r := train.Record{fixed[0], fixed[1]}
		for rank := range 2 {
			for _, e := range fixed[1:] {
				r = append(r, train.Event{Kind: "step", Step: e.Step, Rank: rank, Size: 2, Generation: 2, Indices: e.Indices[rank : rank+1]})
			}
		}
		return audit(change(r), fixed, 2)
	}
	set := func(i int, e train.Event) func(train.Record) train.Record {
		return func(r train.Record) train.Record { r[i] = e; return r }
	}
	must.NoError(t, changed(func(r train.Record) train.Record { return r }))
	must.NoError(t, changed(func(r train.Record) train.Record { return r[:len(r)-1] }))
	must.ErrorContains(t, changed(func(r train.Record) train.Record { return r[:len(r)-2] }), "2 steps of ranks were not recorded")
	must.ErrorContains(t, changed(func(r train.Record) train.Record { return append(r, r[4]) }), "3 of 2 ranks")
	must.ErrorContains(t, changed(func(r train.Record) train.Record { return append(r[:4], r[5:7]...) }), "3 steps count; with a fixed size they are 4")
	must.ErrorContains(t, changed(func(r train.Record) train.Record { return r[1:] }), "step 1 of 4 was not made")
	must.Error(t, changed(set(2, train.Event{Kind: "step", Step: 2, Size: 2, Generation: 2, Indices: []int{1}})))
	must.ErrorContains(t, changed(set(2, train.Event{Kind: "step", Step: 2, Size: 2, Generation: 2})), "too few")
}

// Processes that are replaced as a whole belong to rings by the order of their first steps.
func TestNumbered(t *testing.T) {
	r := numbered(train.Record{{PID: 1, Size: 1}, {PID: 1, Size: 1}, {PID: 2, Size: 2}, {PID: 3, Size: 2}, {PID: 2, Size: 2}, {PID: 4, Size: 1}})
	var rings []int
	for _, e := range r {
		rings = append(rings, e.Generation)
	}
	must.Eq(t, []int{1, 1, 2, 2, 2, 3}, rings)
}
