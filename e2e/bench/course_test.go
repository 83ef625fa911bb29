// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A newcomer is requested at second 10. From 12 on it receives the state, which
// makes steps of 1 s a fifth longer. At 24 a ring of two begins, with steps of 2 s.
func TestCourse(t *testing.T) {
	var r train.Record
	at := 0.0
	add := func(took float64, size, generation int) {
		at += took
		r = append(r, train.Event{Kind: "step", T: at, Step: len(r) + 1, Size: size, Generation: generation})
	}
	for range 12 {
		add(1, 1, 1)
	}
	for range 11 {
		add(1.2, 1, 2)
	}
	add(2.5, 2, 3)
	first := r[len(r)-1]
	for range 12 {
		add(2, 2, 3)
	}
	c := courseOf(r, time.Unix(10, 5e8), first)
	must.Between(t, 0.49, c.Pause, 0.51)
	must.Between(t, 0.99, c.Before, 1.01)
	must.Between(t, 1.99, c.After, 2.01)
	must.Between(t, 0.19, c.Slower, 0.21)
	must.Between(t, 11.9, c.Receiving, 12.1)
	must.Eq(t, ", pause 0.50 s, 0.50 s at the switch, steps 20 % longer for 12.0 s", c.String())

	// Nothing was received while others trained.
	for i := range r {
		r[i].Generation = 0
	}
	c = courseOf(r, time.Unix(10, 5e8), first)
	must.Between(t, 0.49, c.Pause, 0.51)
	must.Eq(t, 0, c.Receiving)

	must.Eq(t, Course{}, courseOf(nil, time.Unix(10, 0), first))
}

func TestPickParts(t *testing.T) {
	picked, err := pickParts("torch-trained,cost")
	must.NoError(t, err)
	must.Len(t, 2, picked)
	_, err = pickParts("everything")
	must.ErrorContains(t, err, "everything")
}
