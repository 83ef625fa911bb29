// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// newStore returns the store of host h<i> in a ring of that shape.
func newStore(t testing.TB, host string, perHost ...int) *rendezvous.Store {
	t.Helper()
	return storeOf(t, rendezvous.Members{Slots: ringsim.Slots(perHost...)}, host)
}

func storeOf(t testing.TB, m rendezvous.Members, host string) *rendezvous.Store {
	t.Helper()
	for _, s := range m.Slots {
		if s.Host == host {
			m.Local = append(m.Local, s.Rank)
		}
	}
	store, err := rendezvous.NewStore(m)
	must.NoError(t, err)
	return store
}

// look is a Get that does not wait: "held", "404" or the value.
func look(t testing.TB, s *rendezvous.Store, rank int, scope, key string) string {
	t.Helper()
	value, found, err := s.Get(expired(), rank, scope, key)
	switch {
	case err != nil:
		must.ErrorIs(t, err, context.Canceled)
		return "held"
	case !found:
		return "404"
	}
	return string(value)
}

func put(t testing.TB, s *rendezvous.Store, rank int, scope, key, value string) {
	t.Helper()
	must.NoError(t, s.Put(rank, scope, key, []byte(value)))
}

func values(pairs ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = []byte(pairs[i+1])
	}
	return m
}

func TestNewStore_Members(t *testing.T) {
	slots := ringsim.Slots(2, 1)
	change := func(f func([]rendezvous.Slot)) []rendezvous.Slot {
		changed := append([]rendezvous.Slot{}, slots...)
		f(changed)
		return changed
	}
	cases := map[string]struct {
		members rendezvous.Members
		want    string
	}{
		"good":             {rendezvous.Members{Slots: slots, Local: []int{2}, Meshes: 6}, ""},
		"no local slot":    {rendezvous.Members{Slots: slots}, ""},
		"ranks not dense":  {rendezvous.Members{Slots: slots[1:]}, "has rank 1 of 3"},
		"wrong size":       {rendezvous.Members{Slots: slots[:2]}, "of 3"},
		"wrong local size": {rendezvous.Members{Slots: change(func(s []rendezvous.Slot) { s[0].LocalSize = 3 })}, "local size"},
		"wrong cross size": {rendezvous.Members{Slots: change(func(s []rendezvous.Slot) { s[2].CrossSize = 3 })}, "cross size"},
		"cross rank":       {rendezvous.Members{Slots: change(func(s []rendezvous.Slot) { s[2].CrossRank = 2 })}, "cross rank"},
		"local unknown":    {rendezvous.Members{Slots: slots, Local: []int{3}}, "not in the ring"},
		"local repeated":   {rendezvous.Members{Slots: slots, Local: []int{1, 1}}, "repeated"},
		"four meshes":      {rendezvous.Members{Slots: slots, Meshes: 4}, "meshes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := rendezvous.NewStore(tc.members)
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}

// A blob can be read only when all blobs of the mesh are in.
func TestStore_ReleasesTogether(t *testing.T) {
	s := newStore(t, "h0", 3)
	put(t, s, 0, "global", "0", "A")
	put(t, s, 1, "global", "1", "B")
	must.Eq(t, "held", look(t, s, 0, "global", "1"))
	must.Eq(t, "held", look(t, s, 1, "global", "0"))
	must.Eq(t, "held", look(t, s, 0, "global", "0"))
	must.Eq(t, "404", look(t, s, 0, "global", "3"))
	put(t, s, 2, "global", "2", "C")
	must.Eq(t, "B", look(t, s, 0, "global", "1"))
	must.Eq(t, "A", look(t, s, 2, "global", "0"))
	must.SliceEmpty(t, s.Outgoing()) // it all stayed on this host
	must.Eq(t, wire.Snapshot{}, s.Snapshot())
}

// The names of machines are a hint: a request for one never waits.
func TestStore_Hints(t *testing.T) {
	s := newStore(t, "h0", 2, 1)
	must.Eq(t, "404", look(t, s, 1, "global", "rank_0"))
	put(t, s, 0, "global", "rank_0", "vm")
	must.Eq(t, "vm", look(t, s, 1, "global", "rank_0"))
	must.Eq(t, "404", look(t, s, 1, "global", "rank_2"))
	must.SliceEmpty(t, s.Outgoing())
}

// A client that got no answer sends its request again.
func TestStore_Idempotent(t *testing.T) {
	s := newStore(t, "h0", 1, 1)
	put(t, s, 0, "global", "0", "A")
	put(t, s, 0, "global", "0", "A")
	must.Len(t, 1, s.Outgoing())
	must.NoError(t, s.Fill(wire.Fill{Scope: "global", Complete: true, Values: values("0", "A", "1", "B")}))
	put(t, s, 0, "global", "0", "A")
	must.ErrorIs(t, s.Put(0, "global", "0", []byte("other")), rendezvous.ErrConflict)
	must.NoError(t, s.Delete(0, "global", "0"))
	must.NoError(t, s.Delete(0, "global", "0"))
	must.NoError(t, s.Delete(0, "never-used", "0"))
	// Had the second DELETE counted, this would be the mesh after the next.
	put(t, s, 0, "global", "0", "second")
	must.Eq(t, "global/1", s.Outgoing()[0].Scope)
}

func TestStore_Foreign(t *testing.T) {
	s := newStore(t, "h0", 2, 2)
	must.ErrorIs(t, s.Put(2, "global", "2", nil), rendezvous.ErrForeign) // of another host
	must.ErrorIs(t, s.Put(9, "global", "9", nil), rendezvous.ErrForeign) // of no host
	must.ErrorIs(t, s.Put(1, "global", "0", nil), rendezvous.ErrForeign) // the other slot's
	must.ErrorIs(t, s.Put(1, "local_h0", "0", nil), rendezvous.ErrForeign)
	must.ErrorIs(t, s.Put(1, "cross_1", "1", nil), rendezvous.ErrForeign)
	must.ErrorIs(t, s.Put(0, "cross_1", "0", nil), rendezvous.ErrForeign)
	_, _, err := s.Get(t.Context(), 2, "global", "0")
	must.ErrorIs(t, err, rendezvous.ErrForeign)
	must.ErrorIs(t, s.Delete(2, "global", "2"), rendezvous.ErrForeign)
	put(t, s, 1, "cross_1", "0", "fine")
	must.ErrorContains(t, s.Delete(1, "cross_1", "0"), "not complete")
}

// The store does not know the members of the user's process sets. So each value goes to the
// leader, which sends it to all hosts. Only values of local sets stay on the host.
func TestStore_UserSets(t *testing.T) {
	s := newStore(t, "h0", 2, 1)
	put(t, s, 0, "global_process_set_hash_aa", "0", "A") // this is process set 0
	must.SliceEmpty(t, s.Outgoing())

	put(t, s, 1, "global_process_set_hash_bb", "0", "X")
	must.Eq(t, []wire.Put{{Scope: "global_process_set_hash_bb", Key: "0", Value: []byte("X")}}, s.Outgoing())
	must.Eq(t, "held", look(t, s, 1, "global_process_set_hash_bb", "1"))
	must.NoError(t, s.Fill(wire.Fill{Scope: "global_process_set_hash_bb", Values: values("0", "X", "1", "Y")}))
	must.Eq(t, "Y", look(t, s, 1, "global_process_set_hash_bb", "1"))

	put(t, s, 1, "local_h0_process_set_hash_bb", "0", "L")
	must.SliceEmpty(t, s.Outgoing())
	must.Eq(t, "L", look(t, s, 1, "local_h0_process_set_hash_bb", "0"))

	put(t, s, 0, "made_up", "word", "W")
	must.Eq(t, []wire.Put{{Scope: "made_up", Key: "word", Value: []byte("W")}}, s.Outgoing())
	must.Eq(t, "404", look(t, s, 0, "made_up", "other-word"))
	must.Eq(t, "W", look(t, s, 1, "made_up", "word"))
	must.NoError(t, s.Delete(1, "made_up", "word"))
	must.Eq(t, "404", look(t, s, 1, "made_up", "word"))
}

// A process set that is removed and made again uses the same names. The second time, no
// process sees a value of the first, even if a member leaves late.
func TestStore_SecondRound(t *testing.T) {
	const set = "global_process_set_hash_bb"
	s := newStore(t, "h0", 2, 1)
	put(t, s, 0, "global_process_set_hash_aa", "0", "A")
	put(t, s, 0, set, "0", "first-0")
	put(t, s, 1, set, "1", "first-1")
	must.NoError(t, s.Delete(0, set, "0"))
	put(t, s, 0, set, "0", "second-0")
	must.Eq(t, "held", look(t, s, 0, set, "1"))
	must.Eq(t, "first-0", look(t, s, 1, set, "0"))
	must.NoError(t, s.Delete(1, set, "1"))
	put(t, s, 1, set, "1", "second-1")
	must.Eq(t, "second-1", look(t, s, 0, set, "1"))
	must.Eq(t, "second-0", look(t, s, 1, set, "0"))
}

// A slot is up when it has left the last of six meshes, or of three if process sets
// are unknown. Meshes of one member count like any other.
func TestStore_Up(t *testing.T) {
	for name, set := range map[string]string{"six": "_process_set_hash_aa", "three": ""} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, "h0", 1)
			build := func(suffix string) {
				for _, scope := range []string{"global", "local_h0", "cross_0"} {
					must.False(t, s.Up(0))
					put(t, s, 0, scope+suffix, "rank_0", "vm")
					put(t, s, 0, scope+suffix, "0", "")
					must.True(t, s.Arrived(0))
					must.NoError(t, s.Delete(0, scope+suffix, "0"))
				}
			}
			must.False(t, s.Arrived(0))
			build("")
			must.False(t, s.Up(0))
			if set != "" {
				build(set)
				must.True(t, s.Up(0))
				must.Eq(t, 6, s.Meshes())
				s.Initialized(0)
				must.Eq(t, 6, s.Meshes())
				return
			}
			must.Eq(t, 0, s.Meshes())
			s.Initialized(0)
			must.True(t, s.Up(0))
			must.Eq(t, 3, s.Meshes())

			// The next generation knows from the beginning.
			next := storeOf(t, rendezvous.Members{Slots: ringsim.Slots(1), Meshes: s.Meshes()}, "h0")
			s = next
			build("")
			must.True(t, next.Up(0))
		})
	}
	t.Run("someone else", func(t *testing.T) {
		s := newStore(t, "h0", 1, 1)
		must.False(t, s.Up(1))
		must.False(t, s.Arrived(1))
		s.Initialized(1)
		must.Eq(t, 0, s.Meshes())
	})
}

// An ended generation keeps its processes waiting and drops their keys.
func TestStore_Close(t *testing.T) {
	s := newStore(t, "h0", 1, 1)
	put(t, s, 0, "global", "0", "A")
	failed := make(chan error, 1)
	go func() {
		_, _, err := s.Get(withTimeout(t), 0, "global", "1")
		failed <- err
	}()
	s.Close()
	s.Close()
	err := <-failed
	must.ErrorIs(t, err, rendezvous.ErrOver)
	must.ErrorIs(t, err, rendezvous.ErrHold)
	must.ErrorIs(t, s.Put(0, "global", "0", []byte("A")), rendezvous.ErrOver)
	must.ErrorIs(t, s.Delete(0, "global", "0"), rendezvous.ErrOver)
	must.NoError(t, s.Fill(wire.Fill{Scope: "global", Complete: true, Values: values("0", "A", "1", "B")}))
	must.Eq(t, wire.Snapshot{}, s.Snapshot())
	must.SliceEmpty(t, s.Outgoing())
	s.Initialized(0)
	for range s.News() {
		t.Log("one element may be left; then it is closed")
	}
}

// One slot cannot fill the agent's memory. When it leaves a mesh, it can store more
// again.
func TestStore_Bounded(t *testing.T) {
	s := newStore(t, "h0", 2)
	big := strings.Repeat("x", 1<<20)
	stored := 0
	var err error
	for ; stored < 1000; stored++ {
		if err = s.Put(0, "scope"+strings.Repeat("i", stored), "0", []byte(big)); err != nil {
			break
		}
	}
	must.ErrorIs(t, err, rendezvous.ErrTooMuch)
	must.Between(t, 10, stored, 16)
	put(t, s, 1, "global", "1", big) // the other slot is not affected

	must.NoError(t, s.Delete(0, "scope", "0"))
	put(t, s, 0, "another", "0", big)

	for reads := 0; ; reads++ {
		must.Less(t, 1_000_000, reads)
		_, _, err := s.Get(expired(), 1, "asked-for-"+strconv.Itoa(reads), "0")
		if !errors.Is(err, context.Canceled) {
			must.ErrorIs(t, err, rendezvous.ErrTooMuch)
			break
		}
	}
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
