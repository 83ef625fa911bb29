// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// Rings of all shapes form, in any order of events, as long as no process dies.
// Even a leader that moves repeatedly is not noticed.
func TestModel_RingsForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perHost := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "slots per host")
		w := newWorld(rapid.Uint64().Draw(t, "seed"), perHost,
			rapid.SampledFrom([]string{"", "zero"}).Draw(t, "process set 0"), nil)
		if err := w.run(0, rapid.IntRange(0, 5).Draw(t, "leader moves")); err != nil {
			t.Fatal(err)
		}
	})
}

// The user's process sets form, too, even if their names are used again.
func TestModel_UserSetsForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perHost := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(t, "slots per host")
		size := 0
		for _, n := range perHost {
			size += n
		}
		// A name always stands for the same ranks, as its hash does.
		subset := rapid.Custom(func(t *rapid.T) []int {
			var ranks []int
			for r := range size {
				if rapid.Bool().Draw(t, "in") {
					ranks = append(ranks, r)
				}
			}
			return ranks
		})
		sets := [][]int{subset.Draw(t, "set 0"), subset.Draw(t, "set 1")}
		var users [][]int
		for i := range rapid.IntRange(1, 5).Draw(t, "uses") {
			users = append(users, sets[i%2])
		}
		w := newWorld(rapid.Uint64().Draw(t, "seed"), perHost, "zero", users)
		if err := w.run(0, rapid.IntRange(0, 3).Draw(t, "leader moves")); err != nil {
			t.Fatal(err)
		}
	})
}

// A process that dies is restarted in its place if no one can have read its blobs,
// and then the ring forms. Otherwise the ring is known to be broken.
func TestModel_Deaths(t *testing.T) {
	formed, broken := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		perHost := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(t, "slots per host")
		w := newWorld(rapid.Uint64().Draw(t, "seed"), perHost, "zero", nil)
		err := w.run(rapid.IntRange(1, 3).Draw(t, "deaths"), rapid.IntRange(0, 3).Draw(t, "leader moves"))
		switch {
		case err == nil:
			formed++
		case errors.Is(err, errBroken), errors.Is(err, rendezvous.ErrConflict):
			broken++
		default:
			t.Fatal(err)
		}
	})
	t.Logf("%d rings formed, %d were broken", formed, broken)
}
